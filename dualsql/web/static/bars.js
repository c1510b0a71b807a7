// A bar chart of an answer with groups, as SVG.

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 24; // pixels of a bar with its gap
const HEIGHT = 120;
const LABEL = 48;

function shape(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

/** A figure of the marks, each { label, value }; both names are of columns. */
export function bars(marks, valueName, labelName) {
  const figure = document.createElement("figure");
  figure.id = "chart";
  figure.tabIndex = 0;
  const most = Math.max(...marks.map((mark) => mark.value), 0);
  const least = Math.min(...marks.map((mark) => mark.value), 0);
  const scale = HEIGHT / (most - least || 1);
  const zero = most * scale + 4;
  const svg = shape("svg", { width: marks.length * WIDTH + LABEL, height: HEIGHT + LABEL + 8, role: "img", "aria-label": `${valueName} by ${labelName}` });
  marks.forEach((mark, index) => {
    const x = index * WIDTH + 4;
    const size = Math.abs(mark.value) * scale;
    const bar = shape("rect", { x, y: mark.value < 0 ? zero : zero - size, width: WIDTH - 4, height: Math.max(size, 1), class: "bar-mark" });
    bar.append(shape("title", {}, `${mark.label}: ${mark.value}`));
    const at = { x: x + WIDTH / 2, y: HEIGHT + 12 };
    svg.append(bar, shape("text", { ...at, transform: `rotate(45 ${at.x} ${at.y})` }, mark.label.length > 12 ? `${mark.label.slice(0, 11)}…` : mark.label));
  });
  const caption = document.createElement("figcaption");
  caption.textContent = `${valueName} by ${labelName}`;
  figure.append(svg, caption);
  return figure;
}
