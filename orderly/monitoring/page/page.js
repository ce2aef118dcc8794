// The backlog as a table of groups, their topics and queues. What brokers, members and messages
// say is untrusted: it gets into the page as text only, and never as markup. What is open and how
// it is filtered is in the address, so that it can be sent, and an alert can link to its group.

const EVERY = 5000; // milliseconds between two looks
const MOST = 300; // rows of one kind at once; the filter finds the others
const RANK = { CRITICAL: 0, UNKNOWN: 1, WARNING: 2, OK: 3 };
const SVG = "http://www.w3.org/2000/svg";

const at = (id) => document.getElementById(id);
const known = { groups: [], history: {}, details: new Map(), time: null };
const asked = new URLSearchParams(location.search); // as an alert's link has it
const linked = new Set(asked.getAll("group")); // come first, whatever their state
const open = new Set([...linked, ...asked.getAll("topic").map(keyOf)]); // rows whose parts are shown
const opening = new Set(asked.has("topic") ? [] : linked); // their topics in trouble are to be opened

// --- what is shown, in the address -------------------------------------------------------------

function keyOf(place) { // GROUP/TOPIC, of which neither has a "/"
  return place.replace("/", "\n");
}

function remember() {
  const query = new URLSearchParams();
  for (const key of open) {
    const [group, topic] = key.split("\n");
    if (topic == null) query.append("group", group);
    else if (open.has(group)) query.append("topic", `${group}/${topic}`);
  }
  if (at("filter").value.trim()) query.set("filter", at("filter").value.trim());
  if (at("bad").checked) query.set("bad", "1");
  const text = query.size ? `?${query.toString().replaceAll("%2F", "/")}` : "";
  if (text !== location.search) history.replaceState(null, "", text || location.pathname);
}

// --- asking ------------------------------------------------------------------------------------

async function ask(path) {
  const reply = await fetch(path, { cache: "no-store" });
  const value = await reply.json();
  if (!reply.ok && !value.reasons) throw new Error(value.error ?? `HTTP ${reply.status}`);
  return { value, now: Date.parse(reply.headers.get("Date")) };
}

async function look() {
  try {
    const [summary, ready] = await Promise.all([
      ask("api/v1/backlog?detail=group"),
      ask("readyz"),
    ]);
    if (summary.value.time !== known.time) await lookCloser();
    Object.assign(known, summary.value);
    showAge(summary.now - Date.parse(known.time), ready.value.ready);
    showTrouble(ready.value.reasons.join("; "));
  } catch (error) {
    at("age").textContent = "no answer";
    at("age").className = "stale";
    showTrouble(`The exporter does not answer: ${error.message}`);
  }
  show();
}

async function lookCloser() {
  known.history = (await ask("api/v1/history")).value.groups;
  await Promise.all([...open].filter((key) => !key.includes("\n")).map(lookInto));
}

async function lookInto(group) {
  const query = new URLSearchParams({ group, detail: "queue" });
  try {
    const { value } = await ask(`api/v1/backlog?${query}`);
    known.details.set(group, value.groups[0].topics.filter((topic) => !isIdleRetry(topic)));
    if (opening.delete(group)) {
      const bad = known.details.get(group).filter((topic) => topic.verdict !== "OK");
      for (const topic of bad) open.add(`${group}\n${topic.topic}`);
    }
  } catch {
    known.details.delete(group); // it is gone
  }
}

function isIdleRetry(topic) {
  return topic.topic.startsWith("%RETRY%") && topic.totals.backlog === 0 && topic.verdict === "OK";
}

// --- words -------------------------------------------------------------------------------------

const NONE = "–";
const count = (value) => (value == null ? NONE : value.toLocaleString("en"));
const rate = (value) =>
  value == null ? NONE : `${value.toLocaleString("en", { maximumSignificantDigits: 3 })}/s`;

function duration(seconds) {
  if (seconds == null) return NONE;
  if (seconds < 1) return seconds > 0 ? "< 1 s" : "0 s";
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = units.findIndex(([, size]) => seconds >= size);
  const [name, size] = units[first];
  const whole = Math.floor(seconds / size);
  const next = units[first + 1];
  const rest = next && whole < 10 ? Math.floor((seconds % size) / next[1]) : 0;
  return rest ? `${whole} ${name} ${rest} ${next[0]}` : `${whole} ${name}`;
}

function drain(of) {
  return of.drains === false ? "never" : duration(of.drain_eta_seconds);
}

// --- pieces of the page ------------------------------------------------------------------------

function make(tag, text, ...classes) {
  const element = document.createElement(tag);
  if (text != null) element.textContent = text;
  element.classList.add(...classes);
  return element;
}

function named(tag, text) { // a name or an id may go on in the next line behind a mark, not in a word
  const element = make(tag);
  for (const piece of text.split(/(?<=[-_.@#/%:|+])(?=\w)/)) {
    element.append(piece, document.createElement("wbr"));
  }
  return element;
}

function chip(text, verdict) {
  return make("span", text.replaceAll("_", " "), "chip", verdict in RANK ? verdict : "UNKNOWN");
}

function cell(text, ...classes) {
  return make("td", text, ...classes, ...(text === NONE ? ["none"] : []));
}

function spark(points) {
  const drawn = document.createElementNS(SVG, "svg");
  const numbers = points.map(([, backlog]) => backlog).filter((backlog) => backlog != null);
  drawn.setAttribute("viewBox", "0 0 96 22");
  drawn.setAttribute("role", "img");
  const [first, last] = [numbers[0], numbers[numbers.length - 1]];
  drawn.setAttribute("aria-label", `backlog from ${count(first)} to ${count(last)}`);
  const [from, to] = [points[0][0], points[points.length - 1][0]];
  const most = Math.max(1, ...numbers);
  const place = ([time, backlog]) =>
    `${(1 + (94 * (time - from)) / (to - from)).toFixed(1)},${(20 - (18 * backlog) / most).toFixed(1)}`;
  for (const run of runs(points)) {
    const line = document.createElementNS(SVG, "polyline");
    line.setAttribute("points", run.map(place).join(" "));
    drawn.append(line);
  }
  return drawn;
}

function runs(points) { // what was not known is a gap, not a line down to 0
  const found = [[]];
  for (const point of points) {
    if (point[1] == null) found.push([]);
    else found[found.length - 1].push(point);
  }
  return found.filter((run) => run.length > 0);
}

function trend(points) {
  const shown = cell(null, "wide");
  if (points && points.filter(([, backlog]) => backlog != null).length > 1) {
    shown.append(spark(points));
  }
  return shown;
}

function heading(name, key) {
  const shown = make("th");
  shown.scope = "row";
  if (key == null) {
    shown.append(named("span", name));
  } else {
    const button = named("button", name);
    button.type = "button";
    button.dataset.key = key;
    button.setAttribute("aria-expanded", String(open.has(key)));
    button.addEventListener("click", () => toggle(key));
    shown.append(button);
  }
  return shown;
}

function* row(kind, of, { name, key, sums, remarks = [], points, dead, members }) {
  const shown = make("tr", null, kind);
  const [state, owner] = [cell(null), named("td", members)];
  state.append(chip(of.state, of.state_verdict));
  if (sums.parked_keys) {
    const keys = sums.parked_keys === 1 ? "key" : "keys";
    state.append(" ", chip(`PARKED ${count(sums.parked_keys)} ${keys}`, "WARNING"));
  }
  owner.classList.add("wide", ...(members === NONE ? ["none"] : []));
  shown.append(
    heading(name, key),
    state,
    cell(count(sums.backlog), "number"),
    trend(points),
    cell(duration(sums.head_age_seconds), "number"),
    cell(rate(sums.in_rate), "number", "wide"),
    cell(rate(sums.out_rate), "number", "wide"),
    cell(drain(sums), "number", "wide"),
    cell(duration(sums.retention_eta_seconds), "number", "wide"),
    cell(count(sums.parked_keys), "number", "wide"),
    cell(dead, "number", "wide"),
    owner,
  );
  yield shown;
  for (const remark of remarks) yield note(remark, kind);
}

function note(text, kind = "queue") {
  const shown = make("tr", null, "note", `of-${kind}`);
  const only = cell(text);
  only.colSpan = 12;
  shown.append(only);
  return shown;
}

// --- groups, topics, queues --------------------------------------------------------------------

function* groupRows(group) {
  const members = group.members && `${group.members.length}${idle(group)}`;
  yield* row("group", group, {
    name: group.group,
    key: group.group,
    sums: group.totals,
    remarks: [group.cause, ...group.findings].filter(Boolean),
    points: known.history[group.group],
    dead: count(group.dead_letters?.messages),
    members: members ?? NONE,
  });
  if (!open.has(group.group)) return;
  const topics = known.details.get(group.group);
  if (!topics) yield note("reading …");
  for (const topic of topics ?? []) yield* topicRows(group, topic);
}

function idle(group) {
  return group.idle_members?.length ? `, ${group.idle_members.length} idle` : "";
}

function* topicRows(group, topic) {
  const key = `${group.group}\n${topic.topic}`;
  const remarks = topic.skew?.max_over_mean > 3 ? [`uneven: most into ${topic.skew.busiest}`] : [];
  yield* row("topic", topic, {
    name: topic.topic, key, sums: topic.totals, remarks, dead: "", members: "",
  });
  if (!open.has(key)) return;
  const shown = topic.queues.filter((queue) => !at("bad").checked || queue.verdict !== "OK");
  const advised = new Set(); // what to do is said once, not for each of a hundred queues
  for (const queue of shown.slice(0, MOST)) yield* queueRow(queue, advised);
  if (shown.length > MOST) yield note(`and ${count(shown.length - MOST)} more queues`);
  else if (shown.length === 0) yield note("no queue has a problem");
}

function* queueRow(queue, advised) {
  const { head } = queue;
  const remarks = queue.cause ? [queue.cause] : [];
  if (head) {
    const key = head.key == null ? "without a key" : `key ${head.key}`;
    const tries = head.attempts == null ? "" : `, attempt ${head.attempts}`;
    remarks.push(`First message: offset ${head.offset}, ${key}${tries}.`);
  }
  if (queue.advice && !advised.has(queue.advice)) {
    advised.add(queue.advice);
    remarks.push(`Next: ${queue.advice}`);
  }
  yield* row("queue", queue, {
    name: `${queue.broker} / ${queue.queue}`, sums: queue, remarks, dead: "",
    members: queue.owner ?? NONE,
  });
}

// --- showing -----------------------------------------------------------------------------------

function show() {
  remember();
  const wanted = at("filter").value.trim().toLowerCase();
  const chosen = known.groups
    .filter((group) => group.group.toLowerCase().includes(wanted))
    .filter((group) => !at("bad").checked || group.verdict !== "OK")
    .sort(
      (one, other) =>
        linked.has(other.group) - linked.has(one.group) ||
        RANK[one.verdict] - RANK[other.verdict] ||
        (other.totals.backlog ?? 0) - (one.totals.backlog ?? 0) ||
        one.group.localeCompare(other.group),
    );
  const focused = document.activeElement?.dataset?.key;
  at("rows").replaceChildren(...chosen.slice(0, MOST).flatMap((group) => [...groupRows(group)]));
  if (chosen.length > MOST) at("rows").append(note(`and ${count(chosen.length - MOST)} more groups`));
  if (focused != null) {
    [...at("rows").querySelectorAll("button")].find((b) => b.dataset.key === focused)?.focus();
  }
  for (const group of known.time ? linked : []) {
    if (!known.groups.some((each) => each.group === group)) at("rows").prepend(note(missing(group)));
  }
  at("empty").hidden = chosen.length > 0;
  at("empty").textContent = known.groups.length ? "No group matches." : "No group is known yet.";
  showSummary();
}

function missing(group) {
  return `There is no group ${group}: it was deleted, or this exporter does not watch it.`;
}

function showSummary() {
  at("cluster").textContent = known.cluster ?? "";
  const verdicts = Object.keys(RANK).map((verdict) => [
    verdict, known.groups.filter((group) => group.verdict === verdict).length,
  ]);
  at("verdicts").replaceChildren(
    ...verdicts.filter(([, groups]) => groups).map(([verdict, groups]) => {
      const item = make("li");
      item.append(chip(`${count(groups)} ${verdict}`, verdict));
      return item;
    }),
  );
  at("brokers").replaceChildren(
    ...(known.brokers ?? []).filter((broker) => !broker.up).map((broker) => {
      const item = make("li");
      item.append(chip(`${broker.broker} does not answer`, "CRITICAL"));
      item.title = broker.error;
      return item;
    }),
  );
}

function showAge(milliseconds, isFresh) {
  at("age").textContent = `read ${duration(Math.max(0, milliseconds) / 1000)} ago`;
  at("age").className = isFresh ? "" : "stale";
}

function showTrouble(text) {
  if (at("trouble").textContent !== text) at("trouble").textContent = text;
  at("trouble").hidden = text === "";
}

async function toggle(key) {
  if (open.delete(key)) return show();
  open.add(key);
  show();
  if (!known.details.has(key) && !key.includes("\n")) {
    await lookInto(key);
    show();
  }
}

at("filter").value = asked.get("filter") ?? "";
at("bad").checked = asked.has("bad");
at("filter").addEventListener("input", show);
at("bad").addEventListener("change", show);
document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input[type=search]");
  if (event.key === "/" && !typing) {
    event.preventDefault();
    at("filter").focus();
  } else if (event.key === "Escape" && typing) {
    at("filter").value = "";
    show();
  }
});
setInterval(() => {
  if (at("auto").checked && !document.hidden) look();
}, EVERY);
look();
