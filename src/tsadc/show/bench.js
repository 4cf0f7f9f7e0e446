
(() => {
  const root = document.documentElement;
  const all = (selector) => [...document.querySelectorAll(selector)];
  const metric = document.getElementById("metric"), filter = document.getElementById("filter");
  const shown = document.getElementById("shown");
  const choose = () => {
    root.classList.add("one-metric");
    all("[data-metric]").forEach((part) => { part.hidden = part.dataset.metric !== metric.value; });
  };
  const sift = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const lines = all("#results tr[data-filter]");
    all("tr[data-filter]").forEach((line) => {
      line.hidden = !words.every((word) => line.dataset.filter.includes(word));
    });
    const left = lines.filter((line) => !line.hidden).length;
    shown.textContent = words.length ? `${left} of ${lines.length} results` : "";
  };
  metric.addEventListener("change", choose);
  filter.addEventListener("input", sift);
  all(".controls").forEach((part) => { part.hidden = false; });
  choose();
})();
