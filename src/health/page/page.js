"use strict";
// Keeps the table as the server would write it, without a reload: asks for the JSON every few seconds and
// touches only what differs, so that nothing flickers and a selection stays.
(() => {
  const EVERY_MS = 3000;
  const PATIENCE_MS = 5000;
  const GROUPS = ["unavailable", "available", "initializing", "unchecked"];
  const MEMBERS = [
    ["unavailable", "unavailablePoolMembers"],
    ["ejected", "ejectedPoolMembers"],
    ["available", "availablePoolMembers"],
    ["initializing", "initializingPoolMembers"],
    ["unchecked", "uncheckedPoolMembers"],
  ];
  const byId = (id) => document.getElementById(id);
  const body = byId("rows");
  let timer = 0;
  let awaySince = null;

  const write = (node, text) => {
    if (node.textContent !== text) node.textContent = text;
  };

  const details = (item, group) => {
    const parts = [];
    if (item.downSince) parts.push("since " + item.downSince);
    if (item.detail) parts.push(item.detail);
    for (const [word, key] of MEMBERS) {
      if (item[key]) parts.push(word + ": " + item[key].join(", "));
    }
    if (group === "unchecked") parts.push("not configured for automated health checks");
    return parts.join("; ");
  };

  const newRow = (name) => {
    const row = document.createElement("tr");
    row.setAttribute("role", "row");
    row.dataset.name = name;
    const head = row.appendChild(document.createElement("th"));
    head.setAttribute("role", "rowheader");
    head.scope = "row";
    head.textContent = name;
    for (const label of ["Provider", "State", "Details"]) {
      const cell = row.appendChild(document.createElement("td"));
      cell.setAttribute("role", "cell");
      cell.dataset.label = label;
    }
    row.cells[2].appendChild(document.createElement("span")).className = "state";
    return row;
  };

  const fill = (row, item, group) => {
    if (row.className !== group) row.className = group;
    write(row.cells[1], item.mechanism ? item.provider + " (" + item.mechanism + ")" : item.provider);
    write(row.cells[2].firstChild, group);
    write(row.cells[3], details(item, group));
  };

  const show = (page) => {
    const rows = new Map(Array.from(body.rows, (row) => [row.dataset.name, row]));
    const counts = [];
    let at = 0;
    for (const group of GROUPS) {
      const items = page[group] || [];
      if (items.length) counts.push(items.length + " " + group);
      for (const item of items) {
        const row = rows.get(item.name) || newRow(item.name);
        rows.delete(item.name);
        fill(row, item, group);
        if (body.rows[at] !== row) body.insertBefore(row, body.rows[at] || null);
        at += 1;
      }
    }
    for (const gone of rows.values()) gone.remove();
    const summary = counts.join(", ") || "no backends";
    write(byId("summary"), summary);
    write(byId("changed"), page.updateTime);
    const title = summary + " \u2013 " + page.title;
    if (document.title !== title) document.title = title;
  };

  const heard = () => {
    awaySince = null;
    document.body.classList.remove("away");
    write(byId("contact"), "Live: asked every few seconds.");
  };

  const missed = () => {
    awaySince = awaySince || new Date();
    document.body.classList.add("away");
    write(byId("contact"),
      "No answer since " + awaySince.toLocaleTimeString() + ". Shown is what was known then; asking on.");
  };

  const ask = async () => {
    clearTimeout(timer);
    try {
      const answer = await fetch("?json", { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
      if (!answer.ok) throw new Error("status " + answer.status);
      show(await answer.json());
      heard();
    } catch (_) {
      missed();
    }
    clearTimeout(timer);
    // A page nobody looks at asks nobody.
    if (!document.hidden) timer = setTimeout(ask, EVERY_MS);
  };

  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) ask();
  });
  ask();
})();
