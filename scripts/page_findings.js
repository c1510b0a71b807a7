// What is wrong with a page: what sticks out of the window or of its own box, is too small to point at, or lies on another part.
() => {
  const LEAST = 24; // px of a target
  const isSeen = (element) => element.checkVisibility({ visibilityProperty: true }) && element.getBoundingClientRect().width > 1;
  const nameOf = ({ tagName, id, innerText }) => `${tagName.toLowerCase()}${id ? `#${id}` : ""} "${(innerText ?? "").slice(0, 30)}"`;
  const { scrollWidth, clientWidth } = document.documentElement;
  const findings = scrollWidth > clientWidth + 1 ? [`the page is ${scrollWidth - clientWidth} px too wide`] : [];
  const dialog = document.querySelector("dialog[open]");
  const place = dialog ?? document.body;
  for (const element of place.querySelectorAll("button, summary, a, label, h1, h2, h3, p, dt, dd")) {
    const isOpen = getComputedStyle(element).overflowX === "visible" && element.clientWidth > 0;
    if (isSeen(element) && isOpen && element.scrollWidth > element.clientWidth + 1) findings.push(`${nameOf(element)} sticks out`);
  }
  for (const element of place.querySelectorAll("button, summary, select, input, textarea")) {
    const { width, height } = (element.matches("[type=checkbox], [type=radio]") ? element.closest("label") ?? element : element).getBoundingClientRect();
    if (isSeen(element) && Math.min(width, height) < LEAST) findings.push(`${nameOf(element)} is ${Math.round(width)} by ${Math.round(height)} px`);
  }
  const groups = dialog ? [":scope > *", ".fields > *", ".tools > *"] : [
    "#result > *, .head > *, #tools > *, #rows, #status > *", ".work > *", ".facets > *, .facets section > *", ".chart-panel > *",
    ".beside > *", ".home > section > *", "details.table > *",
  ];
  const isLaidOut = (part) => isSeen(part) && !["fixed", "absolute"].includes(getComputedStyle(part).position);
  for (const group of groups) {
    const parts = [...place.querySelectorAll(group)].filter(isLaidOut);
    parts.forEach((one, index) => parts.slice(index + 1).forEach((other) => {
      if (one.contains(other) || other.contains(one)) return;
      const [a, b] = [one.getBoundingClientRect(), other.getBoundingClientRect()];
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 1 && high > 1) findings.push(`${nameOf(one)} lies on ${nameOf(other)}`);
    }));
  }
  return findings;
}
