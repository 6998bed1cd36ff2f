// The start of the page: the indexes, the tabs, and the keys that work everywhere.

import { Refused, ask } from "./api.js";
import { commandDialog } from "./commands.js";
import { documentDialogs } from "./documents.js";
import { byId, count, el, fill, message, prose, some } from "./dom.js";
import { learnPlaces } from "./places.js";
import { qualityTab } from "./quality.js";
import { recallTab } from "./recall.js";
import { searchTab } from "./search.js";
import { settingsDialog } from "./settings.js";
import { go, link, onState, read, start } from "./state.js";
import { statusTab } from "./status.js";

const PLACES_MS = 2000;
const TABS = { search: "Search", recall: "Recall", quality: "Quality", status: "Status" };

let listed = [];
const indexes = () => listed;
const shownIndex = (state) => listed.find((one) => (state.index ? one.name === state.index : one.is_default));

const actions = {
  open: (key) => go({ doc: key, explain: "" }),
  explain: (key) => go({ explain: key, doc: "" }),
};
/** After a change of an index: its numbers, the hits and the document are asked for again. */
function changed() {
  window.dispatchEvent(new Event("index-changed"));
  load();
}
const parts = [
  searchTab(indexes, actions),
  documentDialogs(indexes, changed),
  recallTab(indexes),
  qualityTab(indexes),
  statusTab(indexes),
];
commandDialog(() => shownIndex(read())?.has_question_tower ?? true);
settingsDialog({
  // With another key, all is asked again.
  changed: () => location.reload(),
  // Without one, the page says what is missing.
  refused: (why, open) => fill(byId("banner"), message("warning", `${why} `, el("button", { type: "button", click: open }, "Enter a key"))),
});

function show(state) {
  const tab = state.tab in TABS ? state.tab : "search";
  for (const name of Object.keys(TABS)) {
    byId(`tab-${name}`).hidden = name !== tab;
    const to = byId(`to-${name}`);
    to.href = link({ tab: name, doc: "", explain: "" });
    if (name === tab) {
      to.setAttribute("aria-current", "page");
    } else {
      to.removeAttribute("aria-current");
    }
  }
  byId("recall-to-quality").href = byId("to-quality").href;
  const question = tab === "search" ? state.q.trim().slice(0, 60) : TABS[tab];
  document.title = question ? `${question} · dyad` : "dyad";
  const index = shownIndex(state);
  byId("index").value = index?.name ?? "";
  fill(byId("index-facts"), index ? `${some(index.documents, "document")}, generation ${count(index.generation)}` : "");
  parts.forEach((part) => part({ ...state, tab }));
}

function showIndexes() {
  const options = listed.map((one) => el("option", { value: one.name }, one.name));
  fill(byId("index"), options);
  const degraded = listed.filter((one) => one.degraded_reason);
  const text = (one) => [el("b", {}, `${one.name} is degraded: `), prose(one.degraded_reason, 300)];
  fill(
    byId("banner"),
    degraded.slice(0, 3).map((one) => message("warning", text(one))),
  );
}

let started = false;

async function load() {
  try {
    listed = (await ask("v1/indexes")).indexes;
    showIndexes();
  } catch (error) {
    if (!(error instanceof Refused)) {
      throw error;
    }
    // The settings ask for a key; what they say is said once.
    const again = el("button", { type: "button", click: load }, "Try again");
    fill(byId("banner"), error.code !== 401 && message("error", "The list of indexes: ", prose(error.message, 500), " ", again));
  }
  // An index without a default is shown by its name.
  if (listed.length && !shownIndex(read()) && !read().index) {
    go({ index: listed[0].name }, true);
  }
  if (started) {
    go({}, true);
  } else {
    started = true;
    // The page does not wait for long for what it can do without.
    await Promise.race([learnPlaces(), new Promise((resolve) => setTimeout(resolve, PLACES_MS))]);
    onState(show);
    start();
  }
}

byId("index").addEventListener("change", (event) => {
  const chosen = listed.find((one) => one.name === event.target.value);
  go({ index: chosen?.is_default ? "" : event.target.value, doc: "", explain: "" });
});
byId("skip").addEventListener("click", (event) => {
  // The address holds the state of the page.
  event.preventDefault();
  byId("main-content").focus();
});
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest?.("input, textarea, select, dialog");
  if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    go({ tab: "search" });
    byId("q").focus();
    byId("q").select();
  }
});
load();
