"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const MIN_PANEL_WIDTH = 230, Y_AXIS_WIDTH = 56, MAX_VALUE_AXIS_WIDTH = 80, NARROW_WIDTH = 560;
  const MIN_NAME_SHARE = 0.25, MAX_NAME_SHARE = 0.5, LEGEND_SYMBOL_WIDTH = 40;

  const isDark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";

  // The page stores rows as columns and each text once.
  const expandRows = ({ count, columns, texts }) =>
    Array.from({ length: count }, (_, i) => {
      const row = {};
      for (const [name, column] of Object.entries(columns)) {
        const value = column.numbers ? column.numbers[i] : column.texts[i];
        row[name] = column.texts && value !== null ? texts[value] : value;
      }
      return row;
    });

  // A specification has no window size: place as many panels side by side as fit.
  const fitSpec = (spec, width) => {
    const copy = structuredClone(spec);
    if (copy.facet) {
      const gap = copy.spacing?.column ?? copy.spacing ?? 28;
      const axisWidth = copy.usermeta?.yAxisWidth ?? Y_AXIS_WIDTH;
      const fittingColumns = Math.floor((width - axisWidth + gap) / (MIN_PANEL_WIDTH + gap));
      copy.columns = Math.max(1, Math.min(copy.columns ?? 3, fittingColumns));
      copy.spec.width = Math.floor((width - axisWidth - gap * (copy.columns - 1)) / copy.columns) - 4;
    } else if (!copy.layer?.some((layer) => JSON.stringify(layer).includes('"rect"'))) {
      copy.width = Math.max(MIN_PANEL_WIDTH, width - 12);
      copy.autosize = { type: "fit-x", contains: "padding" };
    } else if (width >= 640) {
      copy.width = width - 12;
      copy.autosize = { type: "fit-x", contains: "padding" };
    }
    return copy;
  };

  // Browsers differ in the fonts that they have, so measure texts in the font that draws them.
  const pencil = document.createElement("canvas").getContext("2d");
  pencil.font = `${data.configs.light.legend.labelFontSize}px ${data.configs.light.font}`;
  const widestText = (values, field) => {
    const texts = new Set(values.map((row) => String(row[field] ?? "")));
    return Math.max(0, ...[...texts].map((text) => pencil.measureText(text).width));
  };

  const isLegend = (key, value) =>
    ["color", "shape", "strokeDash"].includes(key) && value?.field && value.type !== "quantitative" && value.legend !== null;

  // Labels and legends must not be wider than the chart: give long entries fewer columns, and limit the names
  // on the left of bars. No legend stands above the names and values on the left.
  const fitTexts = (spec, values, width) => {
    const entryWidth = (field) => widestText(values, field) + LEGEND_SYMBOL_WIDTH;
    let nameWidth = 0, valueAxisWidth = 0, longestEntry = 0;
    JSON.stringify(spec, (key, value) => {
      if (key === "y" && value?.type === "nominal") nameWidth = widestText(values, value.field);
      if (key === "y" && value?.type === "quantitative") valueAxisWidth = MAX_VALUE_AXIS_WIDTH;
      if (isLegend(key, value)) longestEntry = Math.max(longestEntry, entryWidth(value.field));
      return value;
    });
    const nameLimit = Math.max(MIN_NAME_SHARE * width, Math.min(MAX_NAME_SHARE * width, width - longestEntry));
    const legendWidth = width - Math.max(Math.min(nameWidth, nameLimit), spec.facet ? 0 : valueAxisWidth);
    return JSON.parse(JSON.stringify(spec), (key, value) => {
      if (value?.labelLimit) value.labelLimit = Math.min(value.labelLimit, { axis: nameLimit, legend: legendWidth - LEGEND_SYMBOL_WIDTH }[key] ?? 0.95 * width);
      if (isLegend(key, value)) {
        const columns = Math.max(1, Math.floor(legendWidth / entryWidth(value.field)));
        value.legend = { ...value.legend, columns: Math.min(value.legend?.columns ?? columns, columns) };
      }
      return value;
    });
  };

  const drawChart = async (figure) => {
    const chart = data.charts[figure.id];
    chart.values ??= expandRows(chart.rows);
    const container = figure.querySelector(".chart");
    const width = container.clientWidth;
    const config = structuredClone(data.configs[isDark() ? "dark" : "light"]);
    config.background = "transparent";
    if (width < NARROW_WIDTH) {
      config.legend.columns = 3;
      config.legend.layout = { top: { direction: "vertical", anchor: "start", margin: 6 } };
    }
    const spec = { ...fitSpec(fitTexts(chart.spec, chart.values, width), width), datasets: { [data.dataset]: chart.values } };
    figure.drawnState = displayState();
    const result = await vegaEmbed(container, spec, {
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

  const displayState = () => `${isDark()} ${document.querySelector("main").clientWidth}`;

  const visibilityObserver = new IntersectionObserver(
    (entries) => entries.filter((entry) => entry.isIntersecting).forEach(({ target }) => drawIfStale(target)),
    { rootMargin: "600px" },
  );
  const drawIfStale = (figure) => {
    if (!figure.hidden && figure.drawnState !== displayState()) drawChart(figure);
  };
  const figures = [...document.querySelectorAll("figure")];
  const redrawCharts = () => figures.forEach((figure) => { visibilityObserver.unobserve(figure); visibilityObserver.observe(figure); });
  redrawCharts();
  addEventListener("resize", () => { clearTimeout(redrawCharts.timer); redrawCharts.timer = setTimeout(redrawCharts, 150); });
  addEventListener("beforeprint", () => figures.forEach(drawIfStale));

  for (const selector of document.querySelectorAll(".chart-selector")) {
    selector.hidden = false;
    const select = selector.querySelector("select");
    select.addEventListener("change", () => {
      for (const figure of selector.parentElement.querySelectorAll("figure")) figure.hidden = figure.id !== select.value;
      drawIfStale(document.getElementById(select.value));
    });
  }

  // Some browsers refuse storage to local files: the theme then lasts for this visit only.
  const tryStorage = (access) => { try { return access(); } catch { return null; } };
  const button = document.getElementById("theme");
  const showTheme = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`);
    redrawCharts();
  };
  const savedTheme = tryStorage(() => localStorage.getItem("vnetbench-theme"));
  if (savedTheme === "dark" || savedTheme === "light") root.dataset.theme = savedTheme;
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    tryStorage(() => localStorage.setItem("vnetbench-theme", root.dataset.theme));
    showTheme();
  });
  system.addEventListener("change", showTheme);
  showTheme();

  for (const table of document.querySelectorAll("table.estimates")) {
    const body = table.tBodies[0];
    const headings = [...table.tHead.rows[0].cells];
    headings.forEach((heading, column) => {
      heading.querySelector("button").addEventListener("click", () => {
        const isReversed = heading.getAttribute("aria-sort") === "ascending";
        headings.forEach((other) => other.removeAttribute("aria-sort"));
        heading.setAttribute("aria-sort", isReversed ? "descending" : "ascending");
        const sortKey = (row) => row.cells[column].dataset.sortKey;
        // Rows without a value stay at the end in both orders.
        const compare = (a, b) => {
          if (sortKey(a) === "" || sortKey(b) === "") return (sortKey(a) === "") - (sortKey(b) === "");
          return (isReversed ? -1 : 1) * (Number(sortKey(a)) - Number(sortKey(b)));
        };
        body.append(...[...body.rows].sort(compare));
      });
    });
  }
})();
