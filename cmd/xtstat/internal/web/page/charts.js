// Charts of the last two minutes as SVG: an area under a curve, a value for each second, the newest at the right.

const seconds = 120, width = 240, height = 60;

// The charts by the names of the series: title, how a value is written, and when it is bad.
const charts = [
  { name: "rx_packets", title: "received packets", text: v => human(v) + "/s" },
  { name: "rx_bytes", title: "received bits", text: v => human(8 * v) + "bit/s" },
  { name: "lost", title: "lost", text: v => human(v) + "/s", loss: true, grade: v => v > 0 ? "bad" : "" },
  { name: "tx_packets", title: "sent packets", text: v => human(v) + "/s" },
  { name: "tx_bytes", title: "sent bits", text: v => human(8 * v) + "bit/s" },
  { name: "hit_ratio", title: "polls that hit", text: v => (100 * v).toFixed(1) + " %", most: 1 },
  { name: "batch", title: "largest batch", text: human },
  { name: "queue", title: "longest queue", text: human },
  { name: "gap", title: "longest gap between polls", text: duration, grade: v => v >= 1e6 ? "warn" : "" },
];

// human is a number with a unit: 12.3k.
export function human(v) {
  for (const [least, name] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (v >= least) {
      return (v / least).toFixed(1) + name;
    }
  }
  return Number.isInteger(v) ? String(v) : v.toFixed(1);
}

// duration is nanoseconds as 2.5 ms.
function duration(ns) {
  if (ns >= 1e9) {
    return (ns / 1e9).toFixed(2) + " s";
  }
  return ns >= 1e6 ? (ns / 1e6).toFixed(2) + " ms" : Math.round(ns / 1e3) + " µs";
}

// element makes an HTML element with a text.
export function element(tag, text = "", name = "") {
  const e = document.createElement(tag);
  e.textContent = text;
  if (name) {
    e.className = name;
  }
  return e;
}

function shape(tag, name, attributes) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  e.setAttribute("class", name);
  for (const [k, v] of Object.entries(attributes)) {
    e.setAttribute(k, v);
  }
  return e;
}

let cursor = null; // seconds before the newest value, where the pointer is

// build makes the charts. moved is called when the pointer moves to another time.
export function build(into, moved) {
  for (const c of charts) {
    const figure = element("figure", "", c.loss ? "loss" : "");
    const caption = element("figcaption");
    c.output = element("output");
    caption.append(element("span", c.title), c.output);
    const svg = shape("svg", "", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": c.title });
    for (const y of [1, height / 2, height - 1]) {
      svg.append(shape("line", "grid", { x1: 0, x2: width, y1: y, y2: y }));
    }
    c.area = shape("path", "area", { d: "" });
    c.curve = shape("path", "curve", { d: "" });
    c.at = shape("line", "at", { x1: -1, x2: -1, y1: 0, y2: height });
    svg.append(c.area, c.curve, c.at);
    svg.addEventListener("pointermove", e => {
      const box = svg.getBoundingClientRect();
      cursor = Math.max(0, Math.min(seconds - 1, Math.round((1 - (e.clientX - box.left) / box.width) * (seconds - 1))));
      moved(cursor);
    });
    svg.addEventListener("pointerleave", () => {
      cursor = null;
      moved(cursor);
    });
    const scale = element("div", "", "scale");
    c.top = element("span");
    scale.append(element("span", "2 min ago"), c.top);
    figure.append(caption, svg, scale);
    figure.id = "chart-" + c.name;
    c.figure = figure;
    into.append(figure);
  }
}

// draw draws the series of a model, with the values where the pointer is, or the newest.
export function draw(model) {
  for (const c of charts) {
    const series = (model[c.name] || []).slice(-seconds);
    const most = c.most || Math.max(...series, 0);
    const x = i => width - (series.length - 1 - i) * width / (seconds - 1);
    const y = v => height - 1 - (most > 0 ? v / most : 0) * (height - 3);
    const points = series.map((v, i) => `${x(i).toFixed(1)},${y(v).toFixed(1)}`);
    const curve = points.length > 1 ? "M" + points.join("L") : "";
    c.curve.setAttribute("d", curve);
    c.area.setAttribute("d", curve && `${curve}L${width},${height - 1}L${x(0).toFixed(1)},${height - 1}Z`);
    const back = cursor ?? 0;
    const value = series[series.length - 1 - back];
    c.output.textContent = value === undefined ? "–" : c.text(value);
    c.top.textContent = most > 0 ? "scale to " + c.text(most) : "";
    const at = cursor === null ? -1 : width - back * width / (seconds - 1);
    c.at.setAttribute("x1", at);
    c.at.setAttribute("x2", at);
    c.figure.classList.remove("warn", "bad");
    const grade = value !== undefined && c.grade ? c.grade(value) : "";
    if (grade) {
      c.figure.classList.add(grade);
    }
  }
}
