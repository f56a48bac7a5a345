"""What replaces what. The pairs are our own; each pair of `KEPT` would lose a fact."""

import pytest

from neuralstream.config import ExtractSettings
from neuralstream.extract.updates import replaces

REPLACED = [
    ("The offline cap was 500 MB per device.", "The offline cap was raised from 500 MB to 800 MB on 2026-02-24."),
    ("The lag threshold is 90 seconds.", "The lag threshold is 45 seconds since the vacuum was tuned."),
    ("Redis on merlin has maxmemory 512mb.", "Redis on merlin is now set to maxmemory 768mb with noeviction."),
    ("The launch is on Tuesday 7 April 2026.", "The launch moved from 7 April to Tuesday 14 April 2026."),
    ("Kim works Tuesdays and Wednesdays.", "Kim works Wednesdays and Thursdays from now on (no longer Tuesdays)."),
    ("We decided to use Postgres for the ledger.", "The ledger will use DuckDB instead of Postgres."),
    ("We deploy the ledger on Fridays", "We never deploy the ledger on Fridays"),
    ("She does eat meat", "She doesn't eat meat"),
    ("Logging is enabled", "Logging is disabled"),
    ("Redis listens on port 6379", "Redis listens on port 6381"),
    ("Backups run every night at 02:00.", "Backups now run every night at 04:30."),
    ("The weekly standup is on Tuesday.", "The weekly standup is on Thursday now."),
    ("Nora's gym is open until 22:00.", "Nora's gym is open until 21:00 now."),
    ("The VPN endpoint is vpn.example.org:1194.", "The VPN endpoint moved from port 1194 to port 51820."),
    ("Lena lives in Leipzig.", "Lena moved from Leipzig to Dresden."),
    ("Die Miete kostet 820 Euro.", "Die Miete kostet jetzt 870 Euro."),
    ("A route is shown from 85 % on (min_coverage: 0.85).", "min_coverage was lowered from 0.85 to 0.80."),
    ("Redis on merlin has maxmemory 512mb.", "BH-144: orders were lost; redis is now set to maxmemory 768mb."),
]
KEPT = [
    ("Redis listens on port 6379", "Qdrant listens on port 6333"),
    ("The staging redis listens on port 6379", "The production redis listens on port 6381"),
    ("see BH-114 for that", "see BH-141 for that"),
    ("Crash KW-1142 is fixed in build 421", "Crash KW-1124 is fixed in build 434"),
    ("We paid invoice 17", "We paid invoice 18"),
    ("I ran 5 km on Monday", "I ran 7 km on Thursday"),
    ("Anna is on the team", "Bob is on the team"),
    ("Caroline: I like tea", "Melanie: I like tea"),
    ("The light is in the hall", "The light is on in the hall"),
    ("Renewals on kestrel fail because of a redirect.", "Caddy replaced nginx on kestrel and renews by itself."),
    ("ask Marta about it", "ask Martin about it"),
    ("The primary database is on kestrel", "The secondary database is on kestrel"),
    ("Apple rejected 2.8 under guideline 2.5.4.", "Apple rejected 2.8 a second time, now under guideline 3.1.2."),
    ("The production API listens on port 8080.", "The staging API now listens on port 8443."),
    ("The car insurance costs 40 euros a month.", "The bike insurance now costs 6 euros a month."),
    ("The freezer is set to -18 degrees.", "The fridge is now set to 4 degrees."),
    ("The GPU in rig A draws 300 W.", "The GPU in rig B now draws 220 W."),
    ("Anna lives in Bern.", "Anna's train from Bern to Zurich takes 56 minutes."),
    ("Lena's sister lives in Leipzig.", "Lena moved from Leipzig to Dresden."),
    ("Clara's account pays 2.5 percent interest.", "Paul's account now pays 2.0 percent interest."),
    ("Tom owes 500 euros.", "The loan from Tom to Eva is 700 euros."),
    ("The team uses PostgreSQL for orders.", "The team uses Redis instead of PostgreSQL for sessions."),
    ("User prefers dark roast in the morning.", "User prefers decaf instead of dark roast in the evening."),
    ("Function load_config reads YAML.", "Function save_config writes TOML instead of YAML."),
    ("User likes the vim keybindings in VS Code.", "User no longer likes the sidebar in VS Code."),
    ("Kim works on Tuesday at the shop.", "Kim now works on Thursday at the shop too."),
]
PARTLY = [
    (
        "Prices for 2.8: yearly 24.99, monthly 3.99, lifetime 79 EUR.",
        "The yearly price for 2.8 is 27.99 EUR now (not 24.99).",
    ),
    (
        "The shop in Alder Road opens at 7:00 on Saturdays; Quay Street stays at 6:30.",
        "The shop in Alder Road opens at 7:30 on Saturdays, replacing 7:00.",
    ),
    (
        "Samples BD-0417 (C4) and BD-0471 (C5) are in freezer F3, box 7.",
        "Box 7 is now in freezer F5 with unchanged wells (was F3).",
    ),
    (
        "Mel Visser in Utrecht runs the beta with 150 seats.",
        "The beta was enlarged from 150 to 240 seats.",
    ),
]


@pytest.mark.parametrize(("old", "new"), REPLACED)
def test_a_change_that_is_told_replaces(old, new):
    """A statement that says the same subject has changed replaces what was said before."""
    assert replaces(new, old, 0.8, ExtractSettings())


@pytest.mark.parametrize(("old", "new"), KEPT)
def test_another_subject_stays(old, new):
    """However near: two services have two ports, and two events both happened."""
    assert not replaces(new, old, 0.99, ExtractSettings())


@pytest.mark.parametrize(("old", "new"), PARTLY)
def test_what_says_other_things_too_stays(old, new):
    """A statement only part of which has changed is kept, because the rest still holds."""
    assert not replaces(new, old, 0.7, ExtractSettings())


def test_thresholds_are_settings():
    """Below the cosine or the share of words, two statements have different subjects."""
    old, new = REPLACED[0]
    assert not replaces(new, old, 0.49, ExtractSettings())
    assert replaces(new, old, 0.49, ExtractSettings(update_similarity=0.4))
    assert not replaces(new, old, 0.8, ExtractSettings(update_overlap=1.0))
