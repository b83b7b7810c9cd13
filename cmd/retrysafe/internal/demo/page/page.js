// Buttons send what they say, and the server tells what happened: the page itself believes nothing.
import { copy } from "./copy.js";
import { at } from "./dom.js";
import { wireExamine } from "./examine.js";
import { wireForms } from "./forms.js";
import { lang, t, wireLanguage, write } from "./language.js";
import { show } from "./view.js";

let last;

write();
wireLanguage(at("language"));

// What was pressed first happens first: each request waits for the answer to the one before it.
let before = Promise.resolve();
const send = (path, body) => (before = before.then(() => post(path, body)));

async function post(path, body) {
  const notice = at("notice");
  try {
    const answer = await fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json", "Accept-Language": lang },
      body: JSON.stringify(body ?? {}),
    });
    notice.hidden = answer.ok;
    notice.textContent = answer.ok ? "" : await answer.text();
  } catch {
    away();
  }
}

function away() {
  at("notice").textContent = t("notice.away");
  at("notice").hidden = false;
}

const press = (how, times) => send("press", { how, times, slow: at("slow").checked });

at("pay").addEventListener("click", () => press("pay", 1));
for (const button of document.querySelectorAll("[data-how]")) {
  button.addEventListener("click", () => press(button.dataset.how, Number(button.dataset.times)));
}
at("new").addEventListener("click", () => send("new"));
at("kill").addEventListener("click", () => send("gateway/kill"));
at("start").addEventListener("click", () => send("gateway/start"));
wireForms(send);
wireExamine(send);
for (const side of ["without", "with"]) {
  const button = at(side).querySelector(".curl");
  button.addEventListener("click", () => last && copy(button, last[side].curl));
}
for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", () => copy(button, at(button.dataset.copy).textContent));
}

const events = new EventSource("events");
events.addEventListener("message", (event) => {
  show(JSON.parse(event.data), last);
  last = JSON.parse(event.data);
});
events.addEventListener("open", () => { at("notice").hidden = true; });
events.addEventListener("error", away); // the browser tries again by itself
