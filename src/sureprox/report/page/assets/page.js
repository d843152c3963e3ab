
// The page: charts in their places, tables that can be sorted, and the section in view marked in the navigation.

function sortable(table) {
  const body = table.tBodies[0];
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    if (!head.textContent.trim()) return;
    const button = html("button", { type: "button", onclick: () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const sign = down ? -1 : 1;
      body.append(...[...body.rows].sort((a, b) => sign * compare(a.cells[column], b.cells[column])));
    } }, head.textContent);
    head.replaceChildren(button);
  });
}

function compare(a, b) {
  const [x, y] = [a, b].map((cell) => (cell.dataset.value === undefined ? NaN : Number(cell.dataset.value)));
  if (!Number.isNaN(x) || !Number.isNaN(y)) return Number.isNaN(x) ? 1 : Number.isNaN(y) ? -1 : x === y ? 0 : x - y;
  return a.textContent.localeCompare(b.textContent, "en", { numeric: true });
}

const charts = JSON.parse(document.getElementById("charts").textContent);
document.querySelectorAll("figure.chart").forEach((figure, i) => new Chart(figure, charts[i]));
document.querySelectorAll("table").forEach(sortable);

const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const link = links.get(entry.target.id);
    if (entry.isIntersecting) {
      for (const other of links.values()) other.removeAttribute("aria-current");
      link.setAttribute("aria-current", "location");
    }
  }
}, { rootMargin: "-20% 0px -70% 0px" });
document.querySelectorAll("section.part").forEach((section) => watcher.observe(section));
