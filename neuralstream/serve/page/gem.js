// @ts-check
/** One gem: what it says, where from, and every version of it. */

import { get } from "./api.js";
import { correctGem, forgetGem } from "./dialogs.js";
import { h, plural, to, when } from "./dom.js";
import { entityLinks, place, section, tags, turnCard } from "./pieces.js";

/** @import { Gem, Turn, Version } from "./api.js" */

/** @param {string} id */
export async function gemView(id) {
  /** @type {{gem: Gem, turns: Turn[], versions: Version[]}} */
  const { gem, turns, versions } = await get(`/v1/gems/${encodeURIComponent(id)}`, { history: true });
  const cited = new Set(turns.map((turn) => turn.turn_id));
  const evidence = versions.find((version) => version.gem.gem_id === gem.gem_id)?.evidence ?? [];
  return h(
    "div",
    {},
    h("p.kind.gem", {}, "gem"),
    h("h1.statement", { tabindex: -1, class: gem.status === "active" ? "" : "gone" }, gem.content),
    h("p.meta", {}, tags(gem), gem.status === "superseded" && h("span", {}, "replaced"), holds(gem)),
    h(
      "p.actions",
      {},
      gem.status === "active" && h("button", { type: "button", click: () => correctGem(gem) }, "Correct"),
      h("button.danger", { type: "button", click: () => forgetGem(gem) }, "Forget"),
    ),
    facts(gem),
    entityLinks(gem.entities.map((name) => ({ name })), "Named in it"),
    section("Source turns", turns.map((turn) => turnCard(turn)), turns.length ? undefined : "They are not kept any more."),
    section(
      "Also said in",
      evidence.filter((turn) => !cited.has(turn.turn_id)).map((turn) => turnCard(turn)),
    ),
    section("History", versions.map((version) => versionCard(version, gem)), plural(versions.length, "version")),
  );
}

/** @param {Gem} gem */
function holds(gem) {
  if (!gem.valid_from) return null;
  const ends = gem.valid_until ? [" to ", when(gem.valid_until, { day: true })] : [];
  return h("span", {}, gem.valid_until ? "held from " : "holds since ", when(gem.valid_from, { day: true }), ...ends);
}

/** @param {Gem} gem */
function facts(gem) {
  /** @type {[string, import("./dom.js").Child][]} */
  const rows = [
    ["session", h("a", { href: to("session", gem.source.session_id) }, gem.source.session_id)],
    ["place", place(gem)],
    ["importance", gem.importance.toFixed(2)],
    ["confidence", gem.confidence.toFixed(2)],
    ["topics", gem.topics.join(", ")],
    ["made by", [gem.model, gem.prompt].filter(Boolean).join(", ")],
    ["id", h("code", {}, gem.gem_id)],
  ];
  return h(
    "dl.facts",
    {},
    rows.filter(([, value]) => value).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
  );
}

/**
 * @param {Version} version
 * @param {Gem} shown
 */
function versionCard({ gem, replaced_by: by }, shown) {
  const here = gem.gem_id === shown.gem_id;
  return h(
    "article.version",
    { class: gem.status === "active" ? "" : "gone" },
    h("p.statement", {}, h("a", { href: to("gem", gem.gem_id), "aria-current": here ? "true" : null }, gem.content)),
    h(
      "p.meta",
      {},
      h("span", {}, here ? `${gem.status}, shown here` : gem.status),
      holds(gem),
      h("span", {}, plural(gem.evidence.length, "turn"), " say it"),
      by.map((id) => h("span", {}, "replaced by ", h("a", { href: to("gem", id) }, id.slice(0, 8)))),
    ),
  );
}
