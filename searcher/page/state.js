// What the page shows, as the part of its address behind `#`: links, back and forward restore it.

const DEFAULTS = {
  tab: "search",
  // Empty: the default index.
  index: "",
  q: "",
  k: "10",
  ef: "",
  recall: "",
  exact: "",
  filter: "",
  // Keys of documents in a dialog.
  doc: "",
  explain: "",
  // The ranking that a narrow screen shows.
  column: "hybrid",
  // The quality tab's sample.
  n: "50",
  seed: "1",
};

const SNIPPET_BYTES = 280;
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

/** The filter of a state; throws where its JSON cannot be read. */
export function filterOf(state) {
  if (!state.filter.trim()) {
    return null;
  }
  const filter = JSON.parse(state.filter);
  if (typeof filter !== "object" || filter === null || Array.isArray(filter)) {
    throw new SyntaxError('expected an object, for example {"exists": {"field": "lang"}}');
  }
  return filter;
}

/** The search of a state as the API takes it. Numbers that are none are left to the server, which names them. */
export function searchOf(state, mode) {
  const number = (text) => (Number.isFinite(Number(text)) ? Number(text) : text);
  const request = { query: state.q, mode, k: number(state.k) };
  if (state.index) {
    request.index = state.index;
  }
  if (state.exact) {
    request.exact = true;
  } else if (state.recall) {
    request.target_recall = number(state.recall);
  } else if (state.ef) {
    request.ef = number(state.ef);
  }
  const filter = filterOf(state);
  if (filter) {
    request.filter = filter;
  }
  return request;
}

/** The same with what the page shows of each hit. */
export function shownSearch(state, mode) {
  return { ...searchOf(state, mode), fields: ["title"], snippet_bytes: SNIPPET_BYTES };
}
