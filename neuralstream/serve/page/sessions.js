// @ts-check
/** Sessions, and one session along time: its turns, what triggered distilling, and the gems that came of it. */

import { get } from "./api.js";
import { forgetSession } from "./dialogs.js";
import { h, plural } from "./dom.js";
import { gemCard, listed, section, turnCard } from "./pieces.js";
import { sessionCard } from "./search.js";

/** @import { Batch, Gem, Session } from "./api.js" */

const MOST = 500;

/** @type {Record<string, string>} */
const TRIGGERS = {
  batch: "A batch was full",
  context: "The context filled up",
  idle: "Nobody spoke for a while",
  end: "The session ended",
  reset: "The session was reset",
  compaction: "The host was about to compact",
  shutdown: "The host shut down",
};

/** Every session, the latest first. */
export async function sessionsView() {
  /** @type {{sessions: Session[]}} */
  const { sessions } = await get("/v1/sessions", { limit: MOST });
  return h(
    "div",
    {},
    h("h1", { tabindex: -1 }, sessions.length === MOST ? `The latest ${MOST} sessions` : plural(sessions.length, "session")),
    listed(sessions.map(sessionCard)),
  );
}

/** @param {string} id */
export async function sessionView(id) {
  /** @type {{batches: Batch[], other_gems: Gem[]}} */
  const { batches, other_gems: others } = await get(`/v1/timeline/${encodeURIComponent(id)}`);
  const turns = batches.reduce((sum, batch) => sum + batch.turns.length, 0);
  const gems = batches.reduce((sum, batch) => sum + batch.gems.length, others.length);
  return h(
    "div",
    {},
    h("p.kind", {}, "session"),
    h("h1", { tabindex: -1 }, id),
    h("p.meta", {}, h("span", {}, plural(turns, "turn")), h("span", {}, plural(gems, "gem"))),
    h(
      "p.actions",
      {},
      h("button.danger", { type: "button", click: () => forgetSession(id, turns) }, "Forget this session"),
    ),
    h("ol.timeline", {}, batches.map((batch) => h("li", {}, batchRow(batch)))),
    section("Gems of turns that are gone", others.map((gem) => gemCard(gem, { session: false }))),
  );
}

/** @param {Batch} batch */
function batchRow(batch) {
  const why = batch.trigger === null ? "No trigger has taken these turns" : (TRIGGERS[batch.trigger] ?? batch.trigger);
  return h(
    "section.batch",
    {},
    h(
      "h2.trigger",
      { class: batch.trigger ?? "none" },
      batch.trigger && h("span.tag", {}, batch.trigger),
      h("span", {}, why),
      h("span.count", {}, `${plural(batch.turns.length, "turn")}, ${plural(batch.gems.length, "gem")}`),
    ),
    h(
      "div.two",
      {},
      listed(batch.turns.map((turn) => turnCard(turn, { session: false }))),
      listed(batch.gems.map((gem) => gemCard(gem, { session: false }))),
    ),
  );
}
