// The settings: the key for requests, and the address of gRPC for commands. Both are kept until the tab is closed.

import { key, setKey } from "./api.js";
import { byId } from "./dom.js";

const ADDRESS = "dyad.grpc";

/** Where commands reach gRPC: the machine of this page at the usual port, unless another address was given. */
export function grpcAddress() {
  try {
    return sessionStorage.getItem(ADDRESS) || `${location.hostname}:7700`;
  } catch {
    return `${location.hostname}:7700`;
  }
}

/** The dialog; `changed` is called after another key was given. */
export function settingsDialog(changed) {
  const [box, form, keyField, address, why] = ["settings", "settings-form", "api-key", "grpc-address", "settings-why"].map(byId);
  const open = (reason) => {
    keyField.value = key();
    address.value = grpcAddress();
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
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const other = keyField.value.trim() !== key();
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
