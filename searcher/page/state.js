// What the page shows, as the part of its address behind `#`: links, back and forward restore it.

const DEFAULTS = {
  tab: "search",
  // Empty: the default index.
  index: "",
  q: "",
  // The rankings: `compare` for all three, or one of them.
  mode: "compare",
  k: "10",
  // From 1.
  page: "1",
  ef: "",
  recall: "",
  exact: "",
  // "1": one hit for each document.
  group: "",
  // Best hits of the hybrid ranking that the cross encoder scores.
  rerank: "",
  fusion: "",
  weight: "",
  depth: "",
  filter: "",
  // Keys of documents in a dialog.
  doc: "",
  explain: "",
  // The ranking that a narrow screen shows.
  column: "hybrid",
  // The recall tab's sample.
  n: "50",
  seed: "1",
};

const listeners = [];
let shown = null;

/** The state that the address holds; unknown names are ignored. */
export function read() {
  const given = new URLSearchParams(location.hash.slice(1));
  const state = {};
  for (const [name, value] of Object.entries(DEFAULTS)) {
    state[name] = given.get(name) ?? value;
  }
  return state;
}

/** The address of a state, as a link. */
export function link(changes) {
  const state = { ...read(), ...changes };
  const kept = Object.entries(state).filter(([name, value]) => name === "tab" || value !== DEFAULTS[name]);
  return `#${new URLSearchParams(kept)}`;
}

/** Shows another state; `replace` leaves no step to go back to. */
export function go(changes, replace = false) {
  const hash = link(changes);
  if (hash !== location.hash) {
    history[replace ? "replaceState" : "pushState"](null, "", hash);
  }
  notify();
}

function notify() {
  shown = location.hash;
  const state = read();
  listeners.forEach((listener) => listener(state));
}

/** Calls back with every state that is shown. */
export function onState(listener) {
  listeners.push(listener);
}

/** Starts to follow the address. */
export function start() {
  const follow = () => {
    if (location.hash !== shown) {
      notify();
    }
  };
  window.addEventListener("popstate", follow);
  window.addEventListener("hashchange", follow);
  notify();
}
