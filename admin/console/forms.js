// Forms: those that change something or show what is hidden need a reason; others only ask.
import { Problem } from "./api.js";
import { field, h, t } from "./dom.js";
import { advice, lostCaller } from "./view.js";

// unclear are problems after which a change may have been made or not.
const unclear = ["offline", "unavailable", "not-json"];

export const values = (form) => Object.fromEntries(new FormData(form));

// sends lets a form act once at a time, and says that it waits, and what went wrong.
function sends(form, button, said, act, problem) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (button.hasAttribute("aria-disabled")) return;
    // disabled would take the focus away
    button.setAttribute("aria-disabled", "true");
    said.replaceChildren(h("p.hint.late", t("waiting")));
    try {
      said.replaceChildren(...[await act()].flat().filter(Boolean));
    } catch (e) {
      if (e.name === "AbortError") return;
      if (!(e instanceof Problem)) throw e;
      said.replaceChildren(advice(problem(e)));
      lostCaller(e);
    } finally {
      button.removeAttribute("aria-disabled");
    }
  });
}

// reasoned is a form that needs a reason. act gets the reason; what it returns is shown. changes is
// false if it only shows something.
export function reasoned(label, act, { before = [], tone = "primary", hint, changes = true } = {}) {
  const reason = h("textarea", { name: "reason", rows: 2, required: true, maxlength: 900 });
  const said = h("div", { "aria-live": "polite" });
  const button = h(`button.${tone}`, { type: "submit" }, label);
  const form = h("form.stack", before, field(t("reason"), reason, hint ?? t("reason.hint")), h("div.bar", button), said);
  form.addEventListener("submit", (event) => {
    if (reason.value.trim()) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    reason.value = "";
    form.reportValidity();
  });
  const once = async () => {
    const shown = await act(reason.value.trim(), form);
    form.reset();
    return shown;
  };
  sends(form, button, said, once,
    (e) => changes && unclear.includes(e.code) ? new Problem("unconfirmed", e.status, e.detail) : e);
  return form;
}

// question is a form that only asks. act gets its values; what it returns is shown.
export function question(name, fields, act) {
  const said = h("div.said", { "aria-live": "polite" });
  const button = h("button.primary", { type: "submit" }, t(`${name}.go`));
  const form = h("form.card.stack", { id: name.replace(".", "-"), "aria-label": t(name) }, h("h2", t(name)), fields, h("div.bar", button), said);
  sends(form, button, said, () => act(values(form)), (e) => e);
  return form;
}
