// The settings: the key for requests, and the address of gRPC for commands. Both are kept until the tab is closed.

import { key, setKey } from "./api.js";
import { byId } from "./dom.js";
import { grpcPort } from "./places.js";

const ADDRESS = "dyad.grpc";

function given() {
  try {
    return sessionStorage.getItem(ADDRESS) ?? "";
  } catch {
    return "";
  }
}

/** Where commands reach gRPC: the machine of this page at the searcher's port, unless another address was given. */
export function grpcAddress() {
  return given() || `${location.hostname}:${grpcPort()}`;
}

/** The dialog; `changed` is called after another key was given, and `refused` where it was closed without one that was wanted. */
export function settingsDialog({ changed, refused }) {
  const [box, form, keyField, address, why] = ["settings", "settings-form", "api-key", "grpc-address", "settings-why"].map(byId);
  let saved = false;
  const open = (reason) => {
    keyField.value = key();
    address.value = given();
    address.placeholder = grpcAddress();
    why.textContent = reason;
    why.hidden = !reason;
    if (!box.open) {
      box.showModal();
      keyField.focus();
    }
  };
  byId("settings-open").addEventListener("click", () => open(""));
  byId("settings-close").addEventListener("click", () => box.close());
  window.addEventListener("key-wanted", (event) => open(event.detail));
  box.addEventListener("close", () => {
    const reason = why.textContent;
    if (reason && !saved) {
      refused(reason, () => open(reason));
    }
    saved = false;
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const other = keyField.value.trim() !== key();
    saved = other;
    setKey(keyField.value.trim());
    try {
      sessionStorage.setItem(ADDRESS, address.value.trim());
    } catch {
      // Nothing is kept then.
    }
    box.close();
    if (other) {
      changed();
    }
  });
}
