(function () {
  "use strict";
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const specs = read("charts");
  const maps = read("map-values");
  const NARROW = 480;
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // A canvas knows no currentColor: the colours of the page are read when a chart is drawn.
  function makeTheme() {
    const ink = colour("--ink"), soft = colour("--soft"), line = colour("--line");
    const font = getComputedStyle(document.body).fontFamily;
    return {
      background: null, font, view: { stroke: null },
      axis: { labelColor: soft, titleColor: ink, titleFontWeight: "normal", domainColor: soft, tickColor: soft,
        gridColor: line, labelFontSize: 11, titleFontSize: 12 },
      legend: { labelColor: ink, titleColor: ink, labelFontSize: 12 },
      text: { fill: ink, fontSize: 11 },
    };
  }

  function wrapWords(text, most) {
    const lines = [""];
    for (const word of text.split(" ")) {
      const line = lines[lines.length - 1];
      if (line && line.length + word.length >= most) lines.push(word);
      else lines[lines.length - 1] = line ? `${line} ${word}` : word;
    }
    return lines;
  }

  // Where a chart is narrow its legend has one column, and titles below it several lines.
  function fitToWidth(spec, width) {
    if (width >= NARROW) return spec;
    const copy = JSON.parse(JSON.stringify(spec));
    for (const layer of copy.layer) {
      const x = layer.encoding.x, colour = layer.encoding.color;
      if (x && x.axis && typeof x.axis.title === "string") x.axis.title = wrapWords(x.axis.title, width / 12);
      if (colour && colour.legend) Object.assign(colour.legend, { columns: 1, labelLimit: width - 70 });
    }
    return copy;
  }

  async function drawChart(element) {
    const name = element.dataset.chart;
    element.hidden = false;
    const spec = Object.assign({}, fitToWidth(specs[name], element.clientWidth));
    delete spec.title;
    if (spec.layer.some((layer) => layer.mark.type === "image")) {
      // An image has a size of its own: it is made as wide as the axis.
      const room = 90, width = Math.max(240, element.clientWidth - room);
      spec.width = width;
      spec.layer = spec.layer.map((layer) => layer.mark.type === "image"
        ? { ...layer, mark: { ...layer.mark, width } } : layer);
    } else {
      spec.width = "container";
      spec.autosize = { type: "fit-x", contains: "padding" };
    }
    const figure = element.closest("figure");
    figure.classList.add("drawn");
    try {
      const result = await window.vegaEmbed(element, spec, {
        mode: "vega-lite", renderer: "canvas", ast: true, actions: false, defaultStyle: false,
        tooltip: { disableDefaultStyle: true }, config: makeTheme(),
      });
      if (maps[name]) readOut(figure, element, result.view, maps[name]);
      figure.normdiagView = result.view;
    } catch (error) {
      element.hidden = true;
      figure.classList.remove("drawn");
      console.error(name, error);
    }
  }

  // Values of a heat map are 16-bit steps between the smallest and the largest, see figures.py.
  function readOut(figure, element, view, map) {
    const bytes = Uint8Array.from(atob(map.steps), (char) => char.charCodeAt(0));
    const line = figure.querySelector(".read-out");
    const columns = map.tokens.length, rows = map.sites.length;
    const canvas = element.querySelector("canvas");
    canvas.addEventListener("mousemove", (event) => {
      const box = canvas.getBoundingClientRect(), origin = view.origin(), padding = view.padding();
      const x = event.clientX - box.left - origin[0] - padding.left;
      const y = event.clientY - box.top - origin[1] - padding.top;
      const column = Math.floor(x / view.width() * columns), row = Math.floor(y / view.height() * rows);
      if (column < 0 || row < 0 || column >= columns || row >= rows) return;
      const at = 2 * (row * columns + column), step = bytes[at] + 256 * bytes[at + 1];
      const scaled = map.low + step / 65534 * map.span;
      const value = step === 65535 ? "not finite" : (map.is_log ? Math.exp(scaled) : scaled).toPrecision(3);
      line.textContent = `token ${column} “${map.tokens[column]}” · ${map.sites[row]} · ${map.unit} ${value}`;
    });
  }

  async function drawAll() {
    for (const element of document.querySelectorAll(".live")) {
      await drawChart(element);
      await new Promise((done) => setTimeout(done, 0));
    }
    document.documentElement.dataset.charts = "drawn";
  }

  function sortRows(table, column, header) {
    const body = table.tBodies[0], rows = [...body.rows].filter((row) => !row.classList.contains("gap"));
    const key = (row) => {
      const cell = row.cells[column], number = Number(cell.dataset.value ?? cell.textContent.replace(/[,×%]/g, ""));
      return { number: cell.textContent.trim() === "" ? NaN : number, text: cell.textContent };
    };
    const sign = header.getAttribute("aria-sort") === "descending" ? 1 : -1;
    for (const other of header.parentNode.cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
    const compare = (a, b) => {
      const bad = Number.isNaN(a.number) - Number.isNaN(b.number);
      if (Number.isNaN(a.number) && Number.isNaN(b.number)) return sign * a.text.localeCompare(b.text);
      return bad || sign * (a.number - b.number);
    };
    rows.map((row) => [key(row), row]).sort((a, b) => compare(a[0], b[0])).forEach((pair) => body.append(pair[1]));
  }

  function equipTable(table) {
    if (table.tBodies[0].rows.length < 2) return;
    [...table.tHead.rows[0].cells].forEach((header, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...header.childNodes);
      button.addEventListener("click", () => sortRows(table, column, header));
      header.append(button);
    });
    if (table.tBodies[0].rows.length < 8) return;
    const label = document.createElement("label"), input = document.createElement("input");
    label.className = "filter";
    input.type = "search";
    label.append("Rows that contain ", input);
    input.addEventListener("input", () => {
      const wanted = input.value.toLowerCase();
      for (const row of table.tBodies[0].rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    });
    table.closest(".scroll").before(label);
  }

  document.querySelectorAll("main table").forEach(equipTable);
  window.addEventListener("beforeprint", () => {
    document.querySelectorAll("details").forEach((each) => { each.open = true; });
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  window.matchMedia("(max-width: 560px)").addEventListener("change", drawAll);
  drawAll();
})();
