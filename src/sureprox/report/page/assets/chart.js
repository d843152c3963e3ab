
// A chart: controls, legend and panels that share one state. The read-out follows the pointer or the arrow keys.

function html(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "onclick") made.addEventListener("click", value);
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

class Chart {
  constructor(figure, chart) {
    this.figure = figure;
    this.chart = chart;
    this.statistics = [...new Set(chart.panels.flatMap((p) => p.series.flatMap((s) => Object.keys(s.values))))];
    this.state = {
      x: Object.keys(chart.x.scales)[0], y: Object.keys(chart.y.scales)[0], statistic: chart.start || this.statistics[0],
      band: chart.small, hidden: new Set(), highlight: null,
    };
    this.labels = [...new Map(chart.panels.flatMap((p) => p.series.map((s) => [s.label, s]))).values()];
    this.panels = html("div", { class: "panels" });
    this.legend = html("div", { class: "legend", role: "group", "aria-label": "Curves" });
    this.spoken = html("div", { class: "hidden-text", "aria-live": "polite" });
    const beside = chart.panels.length === 1 && !chart.small;
    const inside = beside ? [this.panels, this.legend] : chart.small ? [this.panels, this.legend] : [this.legend, this.panels];
    this.controls = this.makeControls();
    figure.append(this.controls, html("div", { class: beside ? "layout beside" : "layout" }, ...inside), this.spoken);
    figure.setAttribute("aria-label", chart.title);
    this.makeLegend();
    this.redraw();
    new ResizeObserver(() => {
      if (Math.abs(this.panels.clientWidth - this.width) > 8) requestAnimationFrame(() => this.redraw());
    }).observe(this.panels);
  }

  makeControls() {
    const row = html("div", { class: "controls" });
    const group = (name, choices, key) => {
      if (choices.length < 2) return;
      const buttons = choices.map((choice) => html("button", { type: "button", "data-choice": choice, onclick: () => {
        this.state[key] = choice;
        press();
        this.redraw();
      } }, choice));
      const press = () => buttons.forEach((b) => b.setAttribute("aria-pressed", String(b.dataset.choice === this.state[key])));
      press();
      row.append(html("div", { role: "group", "aria-label": name, "data-control": key }, name, html("span", { class: "choices" }, ...buttons)));
    };
    group("y axis", Object.keys(this.chart.y.scales), "y");
    group("x axis", Object.keys(this.chart.x.scales), "x");
    group(this.statistics.every((s) => s.includes("e-")) ? "to a gap of" : "show", this.statistics, "statistic");
    if (this.chart.band) {
      const button = html("button", { type: "button", "aria-pressed": String(this.state.band), title: this.chart.band, onclick: () => {
        this.state.band = !this.state.band;
        button.setAttribute("aria-pressed", String(this.state.band));
        this.redraw();
      } }, this.chart.small ? "band" : `band: ${this.chart.band}`);
      row.append(html("div", { role: "group", "aria-label": "Band", "data-control": "band" }, html("span", { class: "choices" }, button)));
    }
    if (this.labels.length > 3) {
      const all = (shown) => () => { this.state.hidden = new Set(shown ? [] : this.labels.map((s) => s.label)); this.pressLegend(); this.redraw(); };
      row.append(html("div", { role: "group", "aria-label": "All curves", "data-control": "all" }, "curves", html("span", { class: "choices" },
        html("button", { type: "button", onclick: all(true) }, "all"), html("button", { type: "button", onclick: all(false) }, "none"))));
    }
    return row;
  }

  makeLegend() {
    for (const series of this.labels) {
      const button = html("button", { type: "button", "data-label": series.label, onclick: () => {
        const hidden = this.state.hidden;
        if (!hidden.delete(series.label)) hidden.add(series.label);
        this.state.highlight = null;
        this.pressLegend();
        this.redraw();
      } }, this.swatch(series, false), series.label);
      const highlight = (label) => () => { if (!this.state.hidden.has(series.label)) { this.state.highlight = label; this.redraw(); } };
      button.addEventListener("mouseenter", highlight(series.label));
      button.addEventListener("mouseleave", highlight(null));
      this.legend.append(button);
    }
    this.chart.signs.forEach((text, i) => {
      const like = { colour: "#000000", dash: i ? [4, 2] : [], width: 1.4, marker: "o" };
      this.legend.append(html("span", { class: "sign" }, this.swatch(like, i === 1), text));
    });
    this.pressLegend();
  }

  swatch(series, open) {
    const root = svg("svg", { viewBox: "0 0 34 12", "aria-hidden": "true" });
    const colour = ink(series.colour);
    if (series.marker !== "*" || this.chart.small === false) {
      const line = svg("path", { d: "M1 6H33", "stroke-width": series.width, fill: "none" }, root);
      line.style.stroke = colour;
      const dashes = this.chart.signs.length && series.label ? [] : series.dash; // there dashes tell the signs apart
      if (dashes.length) line.setAttribute("stroke-dasharray", dashes.map((d) => d * 1.3).join(" "));
    }
    if (series.marker) marker(root, series.marker, 17, 6, 4, colour, open);
    return root;
  }

  pressLegend() {
    for (const button of this.legend.querySelectorAll("button")) {
      button.setAttribute("aria-pressed", String(!this.state.hidden.has(button.dataset.label)));
    }
  }

  redraw() {
    const { chart, state } = this;
    const focused = [...this.panels.children].findIndex((panel) => panel.contains(document.activeElement));
    this.width = this.panels.clientWidth || 800;
    const least = chart.small ? 240 : 230;
    const columns = Math.max(1, Math.min(chart.columns, Math.floor(this.width / least)));
    this.panels.style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
    const width = Math.floor((this.width - 12 * (columns - 1)) / columns);
    const height = chart.small ? 250 : columns === 1 ? Math.min(420, Math.max(280, width * 0.5)) : Math.min(340, Math.max(240, width * 0.75));
    this.panels.replaceChildren(...chart.panels.map((panel, i) => this.makePanel(panel, { width, height }, i % columns === 0)));
    if (focused >= 0) this.panels.children[focused].querySelector("svg").focus();
  }

  makePanel(panel, size, first) {
    const drawn = drawPanel(this.chart, panel, this.state, size, first);
    const box = html("div", { class: "panel" });
    if (panel.title) box.append(html("p", { class: "panel-title" }, panel.title));
    drawn.root.setAttribute("tabindex", "0");
    drawn.root.setAttribute("role", "application");
    drawn.root.setAttribute("aria-roledescription", "plot");
    const shown = `${drawn.seen.length} ${drawn.seen.length === 1 ? "curve" : "curves"}`;
    drawn.root.setAttribute("aria-label", [this.chart.title, panel.title, shown, "arrow keys read out the values"].filter(Boolean).join(", "));
    box.append(drawn.root);
    if (drawn.escapes.length) {
      box.append(html("ul", { class: "escapes" }, ...drawn.escapes.map((escape) => {
        const sign = html("span", {}, "▲ ");
        sign.style.color = escape.colour;
        return html("li", {}, sign, escape.text);
      })));
    }
    this.listen(box, drawn, size);
    return box;
  }

  listen(box, drawn, size) {
    const { x, frame, root } = drawn;
    const grid = [...new Set(drawn.seen.flatMap((s) => s.grid))].filter((v) => v >= x.low && v <= x.high).sort((a, b) => a - b);
    if (!grid.length) return;
    const layer = svg("g", {}, root);
    let place = null, note = null;
    const hide = () => { layer.replaceChildren(); if (note) note.remove(); note = null; };
    const show = (index, aloud) => {
      hide();
      place = Math.min(Math.max(index, 0), grid.length - 1);
      const value = grid[place], at = x.at(value);
      svg("line", { x1: at, x2: at, y1: frame.top, y2: frame.bottom, class: "cursor" }, layer);
      const rows = drawn.seen.map((s) => this.rowAt(s, value)).filter((row) => row !== null)
        .sort((a, b) => (b.value === null ? Infinity : b.value) - (a.value === null ? Infinity : a.value));
      for (const row of rows) {
        const height = row.value === null ? -1 : heightOf(row.value, drawn.y, frame.top, frame.bottom);
        if (height >= frame.top && height <= frame.bottom) marker(layer, "o", at, height, 4, row.colour, false);
      }
      const title = `${this.chart.unit} = ${numberText(value)}`;
      note = html("div", { class: "readout" }, html("b", {}, title), ...rows.map((row) => {
        const name = html("span", {}, html("span", {}, "● "), row.name);
        name.firstChild.style.color = row.colour;
        return html("div", {}, name, html("span", {}, numberText(row.value)));
      }));
      box.append(note);
      const scale = root.clientWidth / size.width || 1, pixel = at * scale;
      const left = pixel > box.clientWidth / 2 ? pixel - note.offsetWidth - 12 : pixel + 12;
      note.style.left = `${Math.max(Math.min(left, box.clientWidth - note.offsetWidth), Math.min(0, box.clientWidth - note.offsetWidth))}px`;
      note.style.top = `${root.offsetTop || frame.top + 20}px`;
      if (aloud) this.spoken.textContent = [title, ...rows.map((row) => `${row.name} ${numberText(row.value)}`)].join(", ");
    };
    root.addEventListener("pointermove", (event) => {
      const box = root.getBoundingClientRect(), pixel = ((event.clientX - box.left) * size.width) / box.width;
      show(grid.reduce((best, v, i) => (Math.abs(x.at(v) - pixel) < Math.abs(x.at(grid[best]) - pixel) ? i : best), 0), false);
    });
    root.addEventListener("pointerleave", hide);
    root.addEventListener("blur", hide);
    root.addEventListener("keydown", (event) => {
      const far = event.shiftKey ? 10 : 1;
      const moves = { ArrowRight: (place === null ? -far : place) + far, ArrowLeft: (place === null ? grid.length : place) - far, Home: 0, End: grid.length - 1 };
      if (event.key === "Escape") hide();
      if (!(event.key in moves)) return;
      event.preventDefault();
      show(moves[event.key], true);
    });
  }

  // What a curve is at a value of x: a step function everywhere, the others where they were recorded.
  rowAt({ series, grid, values, colour }, value) {
    let i = grid.indexOf(value);
    if (i < 0 && series.steps) i = grid.findLastIndex((g) => g <= value);
    if (i < 0 || (values[i] === null && series.gaps)) return null;
    return { name: series.name, value: values[i], colour };
  }
}
