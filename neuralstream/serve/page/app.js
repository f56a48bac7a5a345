// @ts-check
/** Shows the view that the address names. The address is all the state there is: back, forward and reload work. */

import { Refused } from "./api.js";
import { askAccess } from "./dialogs.js";
import { announce, h } from "./dom.js";
import { entityView } from "./entity.js";
import { gemView } from "./gem.js";
import { overview, searchView } from "./search.js";
import { sessionView, sessionsView } from "./sessions.js";

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const form = /** @type {HTMLFormElement} */ (document.getElementById("search"));
const box = /** @type {HTMLInputElement} */ (document.getElementById("q"));

/** @type {Record<string, (id: string, asked: URLSearchParams) => Promise<HTMLElement>>} */
const VIEWS = {
  "": overview,
  search: (_, asked) => searchView(asked),
  sessions: sessionsView,
  session: sessionView,
  gem: gemView,
  entity: entityView,
};

let latest = 0;

/** @param {{focus?: boolean}} options focus: move it to the heading of what is shown */
async function show({ focus = true } = {}) {
  const mine = ++latest;
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/");
  const asked = new URLSearchParams(query);
  fill(asked, name);
  main.setAttribute("aria-busy", "true");
  let view;
  try {
    view = await (VIEWS[name] ?? overview)(decodeURIComponent(rest.join("/")), asked);
  } catch (error) {
    view = problem(error);
  }
  // Somebody who went on meanwhile is not called back.
  if (mine !== latest) return;
  main.replaceChildren(view);
  main.setAttribute("aria-busy", "false");
  const heading = /** @type {HTMLElement | null} */ (main.querySelector("h1"));
  document.title = `${heading?.textContent?.slice(0, 60) ?? ""} · NeuralStream`;
  if (focus) {
    window.scrollTo(0, 0);
    // In a search, the next words are more likely than reading from the top; the hits are announced.
    if (document.activeElement !== box) heading?.focus({ preventScroll: true });
  }
}

/** @param {unknown} error */
function problem(error) {
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof Refused && error.status === 401) {
    if (!document.querySelector("dialog")) askAccess("This service asks for a token.", show);
    return h("div", {}, h("h1", { tabindex: -1 }, "A token is needed"), h("p.note", {}, "Choose Access to enter one."));
  }
  announce(message);
  return h("div", {}, h("h1", { tabindex: -1 }, "That did not work"), h("p.note", {}, message));
}

/**
 * Let the form and the navigation say what the address says.
 *
 * @param {URLSearchParams} asked
 * @param {string} name
 */
function fill(asked, name) {
  if (name === "search") {
    for (const field of ["q", "mode", "lane"]) {
      const value = asked.get(field);
      if (value !== null) /** @type {HTMLInputElement} */ (form.elements.namedItem(field)).value = value;
    }
    /** @type {HTMLInputElement} */ (form.elements.namedItem("explain")).checked = asked.has("explain");
  }
  for (const link of document.querySelectorAll("nav a")) {
    const here = link.getAttribute("href") === `#/${name}`;
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function search() {
  const asked = new URLSearchParams();
  for (const [field, value] of new FormData(form)) if (value) asked.set(field, String(value));
  const address = asked.has("q") ? `#/search?${asked}` : "#/";
  if (location.hash === address) show();
  else location.hash = address;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  search();
});
form.addEventListener("change", (event) => {
  if (event.target !== box && box.value) search();
});
document.getElementById("access")?.addEventListener("click", () => askAccess("", show));
document.getElementById("skip")?.addEventListener("click", (event) => {
  // The address is the view's.
  event.preventDefault();
  main.focus();
});
document.addEventListener("keydown", (event) => {
  const typing = event.target instanceof Element && event.target.closest("input, textarea, select, dialog");
  if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  box.focus();
  box.select();
});
window.addEventListener("hashchange", () => show());
show({ focus: false });
