// @ts-check
/** The graph one step around an entity: gems that name it, and what they and the turns name beside it. */

import { get } from "./api.js";
import { h, plural, svg, to } from "./dom.js";
import { entityLinks, gemCard, section, turnCard } from "./pieces.js";

/**
 * @import { Entity, Gem } from "./api.js"
 * @typedef {{x: number, y: number}} Point
 */

const WIDTH = 1100;
const HEIGHT = 430;
const CENTRE = { x: WIDTH / 2, y: HEIGHT / 2 };
const MOST_NEIGHBOURS = 14;
const MOST_GEMS = 8;
const LONGEST_LABEL = 22;

/** @param {string} name */
export async function entityView(name) {
  /** @type {Entity} */
  const found = await get(`/v1/entities/${encodeURIComponent(name)}`);
  return h(
    "div",
    {},
    h("p.kind", {}, "entity"),
    h("h1", { tabindex: -1 }, found.name),
    h(
      "p.meta",
      {},
      h("span", {}, `named in ${plural(found.gems.length, "gem")} and ${plural(found.turns.length, "turn")}`),
    ),
    found.neighbours.length + found.gems.length > 0 && h("div.wide", {}, graph(found)),
    entityLinks(
      found.neighbours.map((one) => ({ name: one.name, count: one.together })),
      "Named beside it, and how often",
    ),
    section("Gems", found.gems.map((gem) => gemCard(gem))),
    section("Turns", found.turns.map((turn) => turnCard(turn))),
  );
}

/**
 * Neighbours on an outer ring, gems on an inner one, near what they name. Every node is a link.
 *
 * @param {Entity} found
 */
function graph(found) {
  const gems = found.gems.slice(0, MOST_GEMS);
  const near = found.neighbours.slice(0, MOST_NEIGHBOURS);
  // Those of one gem side by side, so that fewer lines cross.
  const first = (/** @type {string} */ name) => {
    const at = gems.findIndex((gem) => gem.entities.includes(name));
    return at < 0 ? gems.length : at;
  };
  near.sort((one, other) => first(one.name) - first(other.name));
  const neighbours = new Map(near.map((one, at) => [one.name, { ...one, at: onRing(at / near.length, 0.78) }]));
  const turned = gems
    .map((gem) => ({ gem, share: direction(gem, near, gems) }))
    .sort((one, other) => one.share - other.share);
  const start = turned[0]?.share ?? 0;
  const inner = turned.map(({ gem }, at) => ({ gem, at: onRing(start + at / gems.length, 0.38) }));

  const edges = [];
  const linked = new Set();
  for (const { gem, at } of inner) {
    edges.push(edge(CENTRE, at, 1));
    for (const name of gem.entities) {
      const neighbour = neighbours.get(name);
      if (neighbour) {
        edges.push(edge(at, neighbour.at, 1));
        linked.add(name);
      }
    }
  }
  for (const [name, { at, together }] of neighbours) {
    if (!linked.has(name)) edges.push(edge(CENTRE, at, together));
  }
  return svg(
    "svg.graph",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "group", "aria-label": `What is named beside ${found.name}` },
    svg("g", { "aria-hidden": "true" }, edges),
    svg("circle.self", { cx: CENTRE.x, cy: CENTRE.y, r: 10 }),
    svg("text.self", { x: CENTRE.x, y: CENTRE.y + 26 }, short(found.name)),
    inner.map(({ gem, at }) => gemNode(gem, at)),
    [...neighbours.values()].map(({ name, together, at }) =>
      svg(
        "a.node",
        { href: to("entity", name), "aria-label": `${name}, ${plural(together, "time")}` },
        svg("title", {}, name),
        svg("circle", { cx: at.x, cy: at.y, r: Math.min(12, 4 + 1.6 * Math.sqrt(together)) }),
        svg("text", { x: at.x, y: at.y + (at.y < CENTRE.y ? -14 : 24) }, short(name)),
      ),
    ),
  );
}

/**
 * @param {Gem} gem
 * @param {Point} at
 */
function gemNode(gem, { x, y }) {
  return svg(
    "a.node.gem",
    { href: to("gem", gem.gem_id), "aria-label": `Gem: ${gem.content}` },
    svg("title", {}, gem.content),
    svg("path", { d: `M${x - 5} ${y - 7}h10l4 5-9 10-9-10z` }),
  );
}

/**
 * @param {number} share of the way around, from the top
 * @param {number} size of the ring, as a share of the picture
 * @returns {Point}
 */
function onRing(share, size) {
  const angle = 2 * Math.PI * share - Math.PI / 2;
  return { x: CENTRE.x + (WIDTH / 2) * size * Math.cos(angle), y: CENTRE.y + (HEIGHT / 2) * size * Math.sin(angle) };
}

/**
 * Where on the ring the neighbours are that a gem names, as a share of the way around. Those that few others name
 * count more.
 *
 * @param {Gem} gem
 * @param {{name: string}[]} near in their order on the ring
 * @param {Gem[]} gems
 */
function direction(gem, near, gems) {
  let [x, y] = [0, 0];
  near.forEach(({ name }, at) => {
    if (!gem.entities.includes(name)) return;
    const weight = 1 / gems.filter((other) => other.entities.includes(name)).length;
    x += weight * Math.sin((2 * Math.PI * at) / near.length);
    y += weight * Math.cos((2 * Math.PI * at) / near.length);
  });
  const share = Math.atan2(x, y) / (2 * Math.PI);
  return share < 0 ? share + 1 : share;
}

/**
 * @param {Point} from
 * @param {Point} end
 * @param {number} weight
 */
function edge(from, end, weight) {
  const width = Math.min(4, 0.8 + 0.4 * weight);
  return svg("line", { x1: from.x, y1: from.y, x2: end.x, y2: end.y, "stroke-width": width });
}

/** @param {string} name */
function short(name) {
  const letters = [...name];
  return letters.length > LONGEST_LABEL ? `${letters.slice(0, LONGEST_LABEL - 1).join("")}…` : name;
}
