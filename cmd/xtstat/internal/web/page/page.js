// The screen of xtstat web: it draws each update that the server sends, and changes nothing there.

import { build, draw, element, human } from "./charts.js";

const $ = id => document.getElementById(id);

let model = null;       // the last update
let shown = null;       // the one on the screen: an older one while it is paused
let paused = false;
let order = "p";
let chosen = 0;         // row of the sockets
let inside = 0;         // fd of the socket in the dialog
let source = null;

// connect asks for updates, with the sockets in an order. A browser connects again by itself.
function connect() {
  source?.close();
  source = new EventSource("updates?order=" + order);
  source.onmessage = e => {
    model = JSON.parse(e.data);
    if (!paused) {
      shown = model;
      render();
    }
  };
  source.onerror = () => state("no answer from xtstat", "bad");
}

function state(text, grade) {
  $("state").textContent = text;
  $("state").className = "state " + grade;
}

function render() {
  if (!shown) {
    return;
  }
  const p = shown.process;
  document.title = `${p.program} ${p.pid} – xtstat`;
  $("program").textContent = `${p.program} ${p.pid}`;
  if (!p.live) {
    state("ended " + clock(p.last), "bad");
  } else if (paused) {
    state("paused", "warn");
  } else {
    state("running", "good");
  }
  $("times").textContent = `up ${uptime((new Date(shown.at) - new Date(p.started)) / 1000)} · ${clock(shown.at)}`;
  draw(shown);
  gaps();
  drops();
  pools();
  lines();
  sockets();
  events();
  if ($("inside").open && !paused) {
    refresh();
  }
}

function clock(text) {
  return new Date(text).toLocaleTimeString("en-GB");
}

function uptime(s) {
  const parts = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]].filter(([n]) => s >= n).slice(0, 2);
  return parts.map(([n, unit]) => { const k = Math.floor(s / n); s -= k * n; return k + unit; }).join(" ") || "0s";
}

// bar is a bar of so much of the most.
function bar(value, most) {
  const e = element("i", "", "bar");
  e.style.width = most > 0 ? 100 * value / most + "%" : "0";
  const cell = element("span");
  cell.append(e);
  return cell;
}

function rows(into, list, make) {
  into.replaceChildren(...list.map(make));
}

function gaps() {
  const most = Math.max(...(shown.gaps || []).map(g => g.rate), 0);
  rows($("gaps"), shown.gaps || [], g => {
    const li = element("li");
    li.append(element("span", g.name), bar(g.rate, most), element("span", human(g.rate)));
    return li;
  });
}

function drops() {
  const list = (shown.drops || []).slice(0, 12), most = Math.max(...list.map(d => d.rate), 0);
  if (list.length === 0) {
    $("drops").replaceChildren(element("li", "nothing", "none"));
    return;
  }
  rows($("drops"), list, d => {
    const li = element("li");
    li.append(element("span", d.name), bar(d.rate, most), element("span", human(d.rate)), element("span", String(d.total)));
    return li;
  });
}

function pools() {
  rows($("pools"), shown.pools || [], p => {
    const li = element("li"), text = element("p"), meter = element("div", "", "meter"), used = element("i");
    text.append(element("span", p.name), element("span", `${p.used} used of ${p.total}`));
    used.style.width = p.total > 0 ? 100 * p.used / p.total + "%" : "0";
    if (p.used > 0.9 * p.total) {
      meter.classList.add("full");
    }
    meter.append(used);
    const states = (p.states || []).map(x => `${x.state} ${x.count}`).join(", ");
    li.append(text, meter, element("p", states, "states"));
    return li;
  });
}

function lines() {
  const list = shown.lines || [];
  $("feeds").hidden = list.length === 0;
  rows($("lines").tBodies[0], list, x => {
    const tr = element("tr");
    tr.append(element("td", x.feed), element("td", x.line), element("td", human(x.rate), "number"));
    for (const v of [x.packets, x.first, x.duplicates, x.gaps]) {
      tr.append(element("td", String(v), "number"));
    }
    tr.append(element("td", String(x.lost), x.lost > 0 ? "number lost" : "number"), element("td", String(x.recovered), "number"),
      element("td", String(x.last), "number"), element("td", x.dead ? "silent" : "", "dead"));
    return tr;
  });
}

function sockets() {
  const list = shown.sockets || [];
  chosen = Math.max(0, Math.min(chosen, list.length - 1));
  for (const b of document.querySelectorAll("[data-order]")) {
    b.setAttribute("aria-pressed", b.dataset.order === shown.order);
  }
  rows($("sockets").tBodies[0], list, (s, i) => {
    const tr = element("tr", "", i === chosen ? "chosen" : "");
    const cell = (text, name) => tr.append(element("td", text, name));
    cell(String(s.id), "number");
    cell(s.protocol);
    cell(s.local);
    cell(s.remote);
    cell(human(s.packets), "number");
    cell(human(s.bytes), "number");
    cell(human(s.sent), "number");
    cell(String(s.queued), "number");
    cell(String(s.drops), s.drops > 0 ? "number drops" : "number");
    tr.addEventListener("click", () => {
      chosen = i;
      look(s.id);
    });
    return tr;
  });
  const notes = [];
  if (shown.more > 0) {
    notes.push(`${shown.more} more are not shown`);
  }
  if (shown.unpublished > 0) {
    notes.push(`${shown.unpublished} more have found no room in the file (VMA_STATS_FD_NUM)`);
  }
  $("more").textContent = notes.join(", ");
}

function events() {
  rows($("events"), (shown.events || []).slice(-12).reverse(), e => {
    const li = element("li", "", e.kind);
    const at = new Date(e.time);
    li.append(element("span", clock(e.time) + "." + String(at.getMilliseconds()).padStart(3, "0")), element("span", e.kind),
      element("span", "+" + e.count), element("span", e.about ? e.text + " (" + e.about + ")" : e.text));
    return li;
  });
}

// look shows one socket, until the dialog is closed.
function look(fd) {
  inside = fd;
  $("inside").querySelector("h2").textContent = "Socket " + fd;
  $("inside").querySelector("pre").textContent = "";
  $("inside").showModal();
  refresh();
}

// refresh writes what view 3 shows of the socket into the dialog.
async function refresh() {
  const fd = inside, s = (shown.sockets || []).find(x => x.id === fd);
  const text = s || shown.more > 0 ? await (await fetch("socket?fd=" + fd)).text() : "The socket is closed.";
  const rates = s ? `\nrx ${human(s.packets)}/s, ${human(s.bytes)}B/s; tx ${human(s.sent)}/s` : "";
  if (inside === fd) {
    $("inside").querySelector("pre").textContent = text.replace(/^=+\n?/gm, "") + rates;
  }
}

function pause() {
  paused = !paused;
  $("pause").textContent = paused ? "Go on" : "Pause";
  shown = model;
  render();
}

function sort(by) {
  order = by;
  chosen = 0;
  paused = false;
  $("pause").textContent = "Pause";
  connect();
}

function key(e) {
  if (e.ctrlKey || e.altKey || e.metaKey || $("inside").open || $("help").open) {
    return;
  }
  // A button that has the focus takes Enter and space itself. One of a dialog that has just been closed keeps the focus until the next picture.
  const button = e.target instanceof HTMLButtonElement && !e.target.closest("dialog");
  switch (e.key) {
  case "p": case "b": case "s": case "u": case "d": case "i":
    sort(e.key);
    break;
  case "k": case "ArrowUp":
    chosen--;
    break;
  case "j": case "ArrowDown":
    chosen++;
    break;
  case "Enter":
    if (button || !shown?.sockets?.[chosen]) {
      return;
    }
    look(shown.sockets[chosen].id);
    break;
  case " ":
    if (button) {
      return;
    }
    pause();
    break;
  case "?": case "h":
    $("help").showModal();
    break;
  default:
    return;
  }
  e.preventDefault();
  render();
}

build($("charts"), back => {
  $("cursor").textContent = back === null ? "" : `${back} s ago`;
  if (shown) {
    draw(shown);
  }
});
$("pause").addEventListener("click", pause);
$("keys").addEventListener("click", () => $("help").showModal());
for (const b of document.querySelectorAll("[data-order]")) {
  b.addEventListener("click", () => sort(b.dataset.order));
}
for (const b of document.querySelectorAll("button")) {
  b.addEventListener("click", e => e.detail > 0 && b.blur()); // by a pointer: the next key is not for it
}
document.addEventListener("keydown", key);
connect();
