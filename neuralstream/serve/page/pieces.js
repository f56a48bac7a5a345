// @ts-check
/** Turns, gems and signals as they look everywhere. */

import { h, plural, to, when } from "./dom.js";

/** @import { Gem, Hit, Turn } from "./api.js" */

/**
 * What was said, a paragraph for each who says it.
 *
 * @param {Turn} turn
 */
export function said(turn) {
  return h(
    "div.said",
    {},
    turn.parts.map((part) =>
      h("p", { class: `part ${part.role}` }, h("span.who", {}, part.speaker || part.role), h("span.words", {}, part.text)),
    ),
  );
}

/**
 * A turn with its place and time.
 *
 * @param {Turn} turn
 * @param {{session?: boolean}} options session: name it
 */
export function turnCard(turn, { session = true } = {}) {
  const place = turn.index === null ? "turn" : `turn ${turn.index}`;
  return h(
    "article.turn",
    {},
    said(turn),
    h(
      "p.meta",
      {},
      session && h("a", { href: to("session", turn.session_id) }, turn.session_id),
      h("span", {}, place),
      when(turn.created_at),
    ),
  );
}

/**
 * A gem in short; its words lead to the whole of it.
 *
 * @param {Gem} gem
 * @param {{session?: boolean}} options session: name it
 */
export function gemCard(gem, { session = true } = {}) {
  return h(
    "article.gem",
    { class: gem.status === "active" ? "" : "gone" },
    h("p.statement", {}, h("a", { href: to("gem", gem.gem_id) }, gem.content)),
    h(
      "p.meta",
      {},
      tags(gem),
      gem.status === "superseded" && h("span", {}, "replaced"),
      session && h("a", { href: to("session", gem.source.session_id) }, gem.source.session_id),
      h("span", {}, place(gem)),
      when(gem.created_at, { day: true }),
    ),
  );
}

/**
 * Where in its session a gem comes from.
 *
 * @param {Gem} gem
 */
export function place(gem) {
  const [first, last] = gem.source.turn_range.split("-");
  return first === last ? `turn ${first}` : `turns ${first} to ${last}`;
}

/** @param {Gem} gem */
export function tags(gem) {
  return gem.tags.map((tag) => h("span.tag", {}, tag));
}

/**
 * What a gem names, each leading to what is around it.
 *
 * @param {{name: string, count?: number}[]} names
 * @param {string} label
 */
export function entityLinks(names, label) {
  if (!names.length) return null;
  return h(
    "ul.chips",
    { "aria-label": label },
    names.map(({ name, count }) =>
      h(
        "li",
        {},
        h("a", { href: to("entity", name) }, name, count && h("span.count", { title: plural(count, "time") }, count)),
      ),
    ),
  );
}

/**
 * The score of each signal, each bar against the largest of that signal among the hits.
 *
 * @param {Hit} hit
 * @param {Map<string, number>} largest
 */
export function signalTable(hit, largest) {
  const rows = Object.entries(hit.signals).map(([name, value]) => {
    const bar = h("span.bar", { "aria-hidden": "true" });
    const most = largest.get(name) ?? 0;
    bar.style.setProperty("--share", `${most > 0 ? Math.max(0, value / most) : 0}`);
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, name),
      h("td.track", {}, bar),
      h("td.value", { title: value }, value.toFixed(3)),
    );
  });
  return h("table.signals", {}, h("caption", {}, "Signals"), h("tbody", {}, rows));
}

/** @param {Hit[]} hits */
export function largestOf(hits) {
  /** @type {Map<string, number>} */
  const largest = new Map();
  for (const { signals } of hits) {
    for (const [name, value] of Object.entries(signals)) largest.set(name, Math.max(value, largest.get(name) ?? 0));
  }
  return largest;
}

/**
 * A part of a view under its heading; left out where it is empty.
 *
 * @param {string} title
 * @param {HTMLElement[]} items
 * @param {string} [note]
 */
export function section(title, items, note) {
  if (!items.length) return null;
  return h("section", {}, h("h2", {}, title), note ? h("p.note", {}, note) : null, listed(items));
}

/** @param {HTMLElement[]} items */
export function listed(items) {
  return h("ol.plain", {}, items.map((item) => h("li", {}, item)));
}
