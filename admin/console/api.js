// Calls of the API, and the token that they carry. The token stays in this tab.
import { storage } from "./dom.js";

const store = "retrysafe-token";
let held = storage(() => sessionStorage.getItem(store)) ?? "";

export const token = {
  get: () => held,
  set: (text) => {
    held = text;
    storage(() => text ? sessionStorage.setItem(store, text) : sessionStorage.removeItem(store));
  },
};

// Problem is an error with the code of its problem document, or offline or not-json.
export class Problem extends Error {
  constructor(code, status, detail) {
    super(detail || code);
    Object.assign(this, { code, status, detail });
  }
}

// call sends a request and returns its document. With a body it is a POST. Values of the query
// that are empty are left out.
export async function call(path, { query = {}, body, signal } = {}) {
  const q = new URLSearchParams(Object.entries(query).filter(([, v]) => v !== "" && v !== undefined && v !== false));
  const headers = {};
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  if (body) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(`api/v1${path}${q.size ? `?${q}` : ""}`, {
      method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), cache: "no-store", signal,
    });
  } catch (e) {
    if (e.name === "AbortError") throw e;
    throw new Problem("offline", 0, "");
  }
  const doc = await answer.json().catch(() => null);
  if (answer.ok && doc !== null) return doc;
  throw new Problem(doc?.code ?? "not-json", answer.status, doc?.detail ?? `${answer.status} ${answer.statusText}`);
}
