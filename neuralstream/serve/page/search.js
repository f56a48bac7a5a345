// @ts-check
/** What is found, and the overview where nothing is looked for. */

import { get, send } from "./api.js";
import { announce, h, plural, to, when } from "./dom.js";
import { entityLinks, gemCard, largestOf, section, signalTable, turnCard } from "./pieces.js";

/** @import { Gem, Hit, Session, Status } from "./api.js" */

const MOST = 20;

/**
 * Hits for a query, best first, each with the score of every signal.
 *
 * @param {URLSearchParams} asked q, mode, lane, explain
 */
export async function searchView(asked) {
  const query = asked.get("q") ?? "";
  const mode = asked.get("mode");
  /** @type {{hits: Hit[]}} */
  const { hits } = await send("POST", "/v1/search", {
    query,
    k: MOST,
    lane: asked.get("lane") || "all",
    explain: asked.has("explain"),
    ...(mode ? { mode } : {}),
  });
  const found = hits.length ? plural(hits.length, "hit") : "Nothing";
  announce(`${found} for ${query}`);
  const largest = largestOf(hits);
  return h(
    "div",
    {},
    h("h1.small", { tabindex: -1 }, found, " for ", h("q", {}, query)),
    hits.length
      ? h("ol.hits", {}, hits.map((hit) => h("li", {}, hitCard(hit, largest))))
      : h("p.note", {}, "Try other words, another ranking, or gems and turns together."),
  );
}

/**
 * @param {Hit} hit
 * @param {Map<string, number>} largest
 */
function hitCard(hit, largest) {
  const names = (hit.gem?.entities ?? []).map((name) => ({ name }));
  return h(
    "div.hit",
    {},
    h(
      "div.found",
      {},
      h("span", { class: `kind ${hit.kind}` }, hit.kind),
      hit.gem ? gemCard(hit.gem) : hit.turn && turnCard(hit.turn),
      entityLinks(names, "Named in it"),
    ),
    h("div.why", {}, h("p.score", {}, h("span", {}, "score"), h("b", {}, hit.score.toFixed(3))), signalTable(hit, largest)),
  );
}

/** How much there is, and what came last. */
export async function overview() {
  /** @type {[Status, {gems: Gem[]}, {sessions: Session[]}]} */
  const [status, { gems }, { sessions }] = await Promise.all([
    get("/v1/status"),
    get("/v1/gems", { limit: 8 }),
    get("/v1/sessions", { limit: 8 }),
  ]);
  /** @type {[number, string][]} */
  const figures = [
    [status.gems, "gems"],
    [status.turns, "turns"],
    [status.sessions, "sessions"],
    [status.undistilled, "turns to distil"],
    [status.dead_letters, "dead letters"],
  ];
  return h(
    "div",
    {},
    h("h1", { tabindex: -1 }, "Memory of ", h("em", {}, status.user_id)),
    h("dl.figures", {}, figures.map(([count, name]) => h("div", {}, h("dt", {}, name), h("dd", {}, count.toLocaleString("en"))))),
    status.turns + status.gems === 0 &&
      h("p.note", {}, "Nothing is kept yet. Turns appear here as soon as an agent sends them."),
    h(
      "div.two",
      {},
      section("Latest gems", gems.map((gem) => gemCard(gem))) ?? h("div"),
      section("Latest sessions", sessions.map(sessionCard)),
    ),
  );
}

/** @param {Session} session */
export function sessionCard(session) {
  return h(
    "article.session",
    {},
    h("p.statement", {}, h("a", { href: to("session", session.session_id) }, session.session_id)),
    h(
      "p.meta",
      {},
      h("span", {}, plural(session.turns, "turn")),
      h("span", {}, plural(session.gems, "gem")),
      session.undistilled > 0 && h("span.waits", {}, `${session.undistilled} to distil`),
      when(session.last_at),
    ),
  );
}
