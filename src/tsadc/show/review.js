(() => {
  const box = document.querySelector(".questions");
  if (!box) return;
  const cards = [...box.querySelectorAll(".card")];
  const save = document.getElementById("save");
  const said = document.getElementById("count");
  const place = "tsadc-review " + box.dataset.model + " " + cards.map((card) => card.dataset.id).join(" ");
  let answers = {};
  let now = 0;
  // A page opened from a file may have no storage; then answers last as long as the page.
  try { answers = JSON.parse(localStorage.getItem(place)) || {}; } catch { answers = {}; }

  const show = (next, scroll) => {
    now = Math.max(0, Math.min(next, cards.length - 1));
    cards.forEach((card, i) => {
      const own = answers[card.dataset.id];
      card.classList.toggle("now", i === now);
      card.classList.toggle("done", Boolean(own && own.verdict));
      for (const button of card.querySelectorAll("[data-verdict]")) {
        button.setAttribute("aria-pressed", String(Boolean(own) && own.verdict === button.dataset.verdict));
      }
    });
    const given = cards.filter((card) => (answers[card.dataset.id] || {}).verdict).length;
    said.textContent = given ? `${given} of ${cards.length} answered.` : "No answers yet.";
    save.disabled = !given;
    try { localStorage.setItem(place, JSON.stringify(answers)); } catch { /* not kept */ }
    if (scroll) cards[now].scrollIntoView({ block: "center" });
  };
  const answer = (card, verdict) => {
    const own = answers[card.dataset.id] || {};
    const again = own.verdict === verdict;  // the same answer again takes it back
    answers[card.dataset.id] = { ...own, verdict: again ? undefined : verdict };
    const i = cards.indexOf(card);
    show(again ? i : i + 1, !again);
  };
  cards.forEach((card, i) => {
    const note = card.querySelector("input");
    note.value = (answers[card.dataset.id] || {}).note || "";
    note.addEventListener("input", () => {
      answers[card.dataset.id] = { ...answers[card.dataset.id], note: note.value };
      show(i, false);
    });
    for (const button of card.querySelectorAll("[data-verdict]")) {
      button.addEventListener("click", () => answer(card, button.dataset.verdict));
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.target.tagName === "INPUT" || event.ctrlKey || event.metaKey || event.altKey) return;
    const verdict = { y: "true", n: "false", p: "planned" }[event.key.toLowerCase()];
    if (verdict) answer(cards[now], verdict);
    else if (event.key === "s" || event.key === "ArrowDown") show(now + 1, true);
    else if (event.key === "u" || event.key === "ArrowUp") show(now - 1, true);
    else return;
    event.preventDefault();
  });
  save.addEventListener("click", () => {
    const given = cards
      .map((card) => ({ id: card.dataset.id, ...answers[card.dataset.id] }))
      .filter((own) => own.verdict)
      .map((own) => ({ id: own.id, verdict: own.verdict, note: own.note || "" }));
    const text = JSON.stringify({ format: 1, model: box.dataset.model, answers: given }, null, 1);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    link.download = "answers.json";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
  show(0, false);
})();
