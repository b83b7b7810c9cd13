// The examination by retrysafe check, as far as it is.
import { at, make, set } from "./dom.js";
import { has, lang, t } from "./language.js";

const broken = (side) => side.checks.filter((check) => check.verdict === "broken");

// page is the address of a check's page in the reader's language.
const page = (check) => (lang === "zh" ? check.page.replace(".md#", ".zh-CN.md#") : check.page);
const title = (id) => (has(`check.${id}`) ? t(`check.${id}`) : id);
const mark = ({ verdict, severity }) => (severity ? t("mark.harm", { mark: t(`mark.${verdict}`), severity: t(`severity.${severity}`) }) : t(`mark.${verdict}`));
const ended = (side) => side.requests > 0;

export function showExamine(state) {
  const sides = { without: state.sides?.without, with: state.sides?.with };
  for (const name of ["without", "with"]) showSide(at(`examined-${name}`), sides[name], state);
  at("examine").disabled = state.running;
  at("examine").dataset.ended = state.running ? "" : state.number;
  const done = sides.with && ended(sides.with);
  set(at("examine"), done ? t("examine.again") : t("examine.start"));
  const said = happened(state, sides, done);
  if (at("examine-happened").textContent && at("examine-happened").textContent !== said && !state.running) set(at("said"), said);
  set(at("examine-happened"), said);
}

function happened(state, sides, done) {
  if (state.error) return t("examine.stopped", { error: state.error });
  if (done) return t("examine.happened.fault", { bad: broken(sides.without).length, all: sides.without.total, good: broken(sides.with).length });
  if (!state.running) return t("examine.none");
  return sides.without ? t("examine.runs") : t("examine.starts");
}

function showSide(section, side, state) {
  const verdict = section.querySelector(".verdict");
  const progress = section.querySelector("progress");
  const { tone, big, small } = score(side, state);
  section.dataset.tone = tone;
  set(verdict.querySelector("strong"), big);
  set(verdict.querySelector("span"), small);
  progress.hidden = !side || ended(side) || !state.running;
  if (side) [progress.max, progress.value] = [side.total, side.checks?.length ?? 0];
  section.querySelector(".report").hidden = !side || !ended(side);
  showChecks(section.querySelector(".checks"), side?.checks ?? []);
}

function score(side, state) {
  if (!side) return { tone: "none", big: "–", small: state.running ? t("examine.waits") : t("examine.none") };
  const all = side.total;
  const done = side.checks ?? [];
  if (!ended(side)) return { tone: "none", big: "…", small: side.now ? t("examine.running", { n: done.length + 1, all, title: title(side.now) }) : "" };
  const bad = broken(side);
  const passed = done.filter((check) => check.verdict === "passed").length;
  const critical = bad.filter((check) => check.severity === "critical").length;
  return {
    tone: bad.length ? "bad" : "good",
    big: t("examine.passed", { passed, all }),
    small: bad.length ? t("examine.score", { requests: side.requests, broken: bad.length, critical }) : t("examine.score.none", { requests: side.requests }),
  };
}

function showChecks(list, checks) {
  if (list.children.length > checks.length) list.replaceChildren();
  for (const check of checks.slice(list.children.length)) {
    const item = make("li", {}, make("span", { className: "mark", textContent: mark(check) }), " ", make("a", { href: page(check), target: "_blank", rel: "noopener noreferrer", textContent: title(check.id) }));
    item.dataset.verdict = check.verdict;
    list.append(item);
  }
}

export function wireExamine(send) {
  at("examine").addEventListener("click", () => send("examine"));
}
