"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const NARROWEST_PANEL = 230, Y_AXIS = 56, NARROW = 560;

  const isDark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";

  // Rows come as columns, with each text once.
  const expanded = ({ count, columns, texts }) =>
    Array.from({ length: count }, (_, i) => {
      const row = {};
      for (const [name, column] of Object.entries(columns)) {
        const value = column.numbers ? column.numbers[i] : column.texts[i];
        row[name] = column.texts && value !== null ? texts[value] : value;
      }
      return row;
    });

  // A specification knows nothing of the window: panels are put side by side as far as they fit.
  const fitted = (spec, width) => {
    const copy = structuredClone(spec);
    if (copy.facet) {
      const gap = copy.spacing?.column ?? copy.spacing ?? 28;
      const axis = copy.usermeta?.axisRoom ?? Y_AXIS;
      const fitting = Math.floor((width - axis + gap) / (NARROWEST_PANEL + gap));
      copy.columns = Math.max(1, Math.min(copy.columns ?? 3, fitting));
      copy.spec.width = Math.floor((width - axis - gap * (copy.columns - 1)) / copy.columns) - 4;
    } else if (!copy.layer?.some((layer) => JSON.stringify(layer).includes('"rect"'))) {
      copy.width = Math.max(NARROWEST_PANEL, width - 12);
      copy.autosize = { type: "fit-x", contains: "padding" };
    } else if (width >= 640) {
      copy.width = width - 12;
      copy.autosize = { type: "fit-x", contains: "padding" };
    }
    return copy;
  };

  const draw = async (figure) => {
    const chart = data.charts[figure.id];
    chart.values ??= expanded(chart.rows);
    const box = figure.querySelector(".chart");
    const width = box.clientWidth;
    const config = structuredClone(data.configs[isDark() ? "dark" : "light"]);
    config.background = "transparent";
    if (width < NARROW) config.legend.columns = 3;
    const spec = { ...fitted(chart.spec, width), datasets: { [data.dataset]: chart.values } };
    figure.drawnAs = key();
    const result = await vegaEmbed(box, spec, {
      config,
      mode: "vega-lite",
      renderer: chart.values.length > 4000 ? "canvas" : "svg",
      actions: { export: true, source: false, compiled: false, editor: false },
      downloadFileName: figure.id,
      tooltip: { theme: isDark() ? "dark" : "light" },
    });
    figure.result?.finalize();
    figure.result = result;
  };

  const key = () => `${isDark()} ${document.querySelector("main").clientWidth}`;

  const seen = new IntersectionObserver(
    (entries) => entries.filter((entry) => entry.isIntersecting).forEach(({ target }) => drawIfStale(target)),
    { rootMargin: "600px" },
  );
  const drawIfStale = (figure) => {
    if (!figure.hidden && figure.drawnAs !== key()) draw(figure);
  };
  const figures = [...document.querySelectorAll("figure")];
  const drawAgain = () => figures.forEach((figure) => { seen.unobserve(figure); seen.observe(figure); });
  drawAgain();
  addEventListener("resize", () => { clearTimeout(drawAgain.timer); drawAgain.timer = setTimeout(drawAgain, 150); });
  addEventListener("beforeprint", () => figures.forEach(drawIfStale));

  for (const pick of document.querySelectorAll(".pick")) {
    pick.hidden = false;
    const select = pick.querySelector("select");
    select.addEventListener("change", () => {
      for (const figure of pick.parentElement.querySelectorAll("figure")) figure.hidden = figure.id !== select.value;
      drawIfStale(document.getElementById(select.value));
    });
  }

  // Storage is refused to pages from a file in some browsers; the choice then holds for this visit.
  const stored = (change) => { try { return change(); } catch { return null; } };
  const button = document.getElementById("theme");
  const showTheme = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`);
    drawAgain();
  };
  const kept = stored(() => localStorage.getItem("vnetbench-theme"));
  if (kept === "dark" || kept === "light") root.dataset.theme = kept;
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    stored(() => localStorage.setItem("vnetbench-theme", root.dataset.theme));
    showTheme();
  });
  system.addEventListener("change", showTheme);
  showTheme();

  for (const table of document.querySelectorAll("table.estimates")) {
    const body = table.tBodies[0];
    const headings = [...table.tHead.rows[0].cells];
    headings.forEach((heading, column) => {
      heading.querySelector("button").addEventListener("click", () => {
        const turned = heading.getAttribute("aria-sort") === "ascending";
        headings.forEach((other) => other.removeAttribute("aria-sort"));
        heading.setAttribute("aria-sort", turned ? "descending" : "ascending");
        const rank = (row) => row.cells[column].dataset.rank;
        // What has no figure stays at the end either way.
        const compare = (a, b) => {
          if (rank(a) === "" || rank(b) === "") return (rank(a) === "") - (rank(b) === "");
          return (turned ? -1 : 1) * (Number(rank(a)) - Number(rank(b)));
        };
        body.append(...[...body.rows].sort(compare));
      });
    });
  }
})();
