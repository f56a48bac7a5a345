"""The service: HTTP, MCP, watching logs, hosts and the page."""

from __future__ import annotations

from acceptance.site import by_tests

__all__ = ["LINES"]

LINES = (
    by_tests(
        "host",
        "A host's 200 turns beside two searchers: all found, gems cite their own session, metrics add up; "
        "SIGTERM and SIGKILL lose and double nothing",
        "tests/serve/test_http_service.py",
        alone=True,
    ),
    by_tests(
        "tenants",
        "A token gets nothing of another user through any route, tool or page",
        "tests/serve/test_http_access.py",
        "tests/serve/test_mcp.py",
    ),
    by_tests(
        "mcp",
        "The official MCP client lists and calls every tool, over stdio and HTTP, and gets errors a model can act on",
        "tests/serve/test_mcp.py",
        "tests/serve/test_mcp_stdio.py",
    ),
    by_tests(
        "watch",
        "A log that grows, is cut, rotated and half written gives each turn once",
        "tests/serve/test_watch.py",
        "tests/serve/test_watch_remote.py",
        "tests/cli/test_watch.py",
    ),
    by_tests("page", "The page's flows pass in Chromium", "tests/serve/test_page.py"),
    by_tests(
        "hosts",
        "The extensions for OpenClaw and pi type-check and pass their tests against the running service",
        "tests/integrations",
    ),
)
