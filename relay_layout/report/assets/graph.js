// Two drawings of one graph, before and after, that move together. Only what is in sight is drawn.

const BUCKET = 600; // Edges are found by the strips of this height that they cross.
const TEXT_SCALE = 0.5, SHAPE_SCALE = 0.16;

class View {
  constructor() { this.scale = 1; this.x = 0; this.y = 0; }

  zoom(factor, x, y) {
    const scale = Math.min(3, Math.max(0.01, this.scale * factor));
    this.x = x - ((x - this.x) * scale) / this.scale;
    this.y = y - ((y - this.y) * scale) / this.scale;
    this.scale = scale;
  }
}

/** Where nodes and edges are, for drawing and for finding what was clicked. */
class Places {
  constructor(target, drawing, size) {
    this.width = drawing.width; this.height = drawing.height;
    this.nodeWidth = size.width; this.nodeHeight = size.height;
    this.nodes = drawing.nodes;
    this.order = drawing.nodes.map((_, index) => index).sort((one, other) => this.nodes[one][1] - this.nodes[other][1]);
    this.edges = target.edges.map((edge, index) => {
      const [x0, y0] = this.nodes[edge.source], [x1, y1] = this.nodes[edge.target];
      return [[x0, y0 + size.height / 2], ...drawing.edges[index], [x1, y1 - size.height / 2]];
    });
    this.strips = [];
    this.edges.forEach((points, index) => {
      const last = Math.floor(points[points.length - 1][1] / BUCKET);
      for (let strip = Math.floor(points[0][1] / BUCKET); strip <= last; strip++) (this.strips[strip] ||= []).push(index);
    });
  }

  nodesBetween(top, bottom) {
    const reach = this.nodeHeight / 2;
    return this.order.slice(this.first(top - reach), this.first(bottom + reach));
  }

  /** The first place in `order` at or below a height. */
  first(y) {
    let low = 0, high = this.order.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.nodes[this.order[middle]][1] < y) low = middle + 1; else high = middle;
    }
    return low;
  }

  edgesBetween(top, bottom) {
    const found = new Set();
    for (let strip = Math.max(0, Math.floor(top / BUCKET)); strip <= Math.floor(bottom / BUCKET); strip++) {
      for (const index of this.strips[strip] || []) found.add(index);
    }
    return found;
  }

  at(x, y) {
    return this.nodesBetween(y, y).find((index) => {
      const [cx, cy] = this.nodes[index];
      return Math.abs(cx - x) <= this.nodeWidth / 2 && Math.abs(cy - y) <= this.nodeHeight / 2;
    });
  }
}

class Graph {
  /** `choose(index)` is called for a click; `changed()` when the view moved. */
  constructor(canvas, side, target, places, view, colours, choose, changed) {
    Object.assign(this, { canvas, side, target, places, view, colours, choose, changed });
    this.matches = new Set();
    this.selected = null;
    this.busiest = Math.max(1e-9, ...target.calls.map((call) => call.measured_us ?? call.estimate_us ?? 0));
    this.labelled = new Set();
    const seen = new Set();
    target.edges.forEach((edge, index) => {
      if (edge.transform !== null && !seen.has(edge.transform)) { seen.add(edge.transform); this.labelled.add(index); }
    });
    this.abort = new AbortController();
    this.listen(this.abort.signal);
  }

  listen(signal) {
    const { canvas, view } = this;
    let drag = null;
    canvas.addEventListener('wheel', (event) => {
      event.preventDefault();
      view.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), event.offsetX, event.offsetY);
      this.changed();
    }, { passive: false, signal });
    canvas.addEventListener('pointerdown', (event) => {
      drag = { x: event.clientX, y: event.clientY, moved: false };
      canvas.setPointerCapture(event.pointerId);
    }, { signal });
    canvas.addEventListener('pointermove', (event) => {
      if (!drag) { this.hint(event); return; }
      const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
      if (!drag.moved && Math.hypot(dx, dy) < 4) return;
      view.x += dx; view.y += dy;
      drag = { x: event.clientX, y: event.clientY, moved: true };
      this.changed();
    }, { signal });
    canvas.addEventListener('pointerup', (event) => {
      if (drag && !drag.moved) this.choose(this.under(event) ?? null);
      drag = null;
    }, { signal });
    canvas.addEventListener('keydown', (event) => {
      const step = 80, middle = [canvas.clientWidth / 2, canvas.clientHeight / 2];
      const moves = { ArrowUp: [0, step], ArrowDown: [0, -step], ArrowLeft: [step, 0], ArrowRight: [-step, 0] };
      if (moves[event.key]) { view.x += moves[event.key][0]; view.y += moves[event.key][1]; }
      else if (event.key === '+' || event.key === '=') view.zoom(1.25, ...middle);
      else if (event.key === '-') view.zoom(0.8, ...middle);
      else if (event.key === '0') this.fit();
      else return;
      event.preventDefault();
      this.changed();
    }, { signal });
  }

  under(event) {
    const { x, y, scale } = this.view;
    return this.places.at((event.offsetX - x) / scale, (event.offsetY - y) / scale);
  }

  hint(event) {
    const index = this.under(event);
    this.canvas.title = index === undefined ? '' : this.target.nodes[index].name;
  }

  fit() {
    const { canvas, places, view } = this;
    view.scale = Math.min(1, (canvas.clientWidth - 24) / places.width, (canvas.clientHeight - 24) / places.height);
    view.x = (canvas.clientWidth - places.width * view.scale) / 2;
    view.y = (canvas.clientHeight - places.height * view.scale) / 2;
  }

  /** Brings a node to the middle, near enough to be read. */
  show(index) {
    const { canvas, view } = this, [x, y] = this.places.nodes[index];
    view.scale = Math.max(view.scale, 0.9);
    view.x = canvas.clientWidth / 2 - x * view.scale;
    // No empty space above the first layer.
    view.y = Math.min(14, canvas.clientHeight / 2 - y * view.scale);
  }

  draw() {
    const { canvas, view, places } = this, ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
    }
    const pen = canvas.getContext('2d');
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.setTransform(ratio * view.scale, 0, 0, ratio * view.scale, ratio * view.x, ratio * view.y);
    const top = -view.y / view.scale, bottom = (height - view.y) / view.scale;
    const edges = places.edgesBetween(top, bottom), transforms = [];
    pen.lineWidth = Math.max(1.2, 0.7 / view.scale); pen.strokeStyle = this.colours.edge;
    pen.beginPath();
    for (const index of edges) {
      if (this.side === 'after' && this.target.edges[index].transform !== null) transforms.push(index);
      else this.trace(pen, places.edges[index]);
    }
    pen.stroke();
    pen.lineWidth = Math.max(3, 1.6 / view.scale); pen.strokeStyle = this.colours.red;
    pen.beginPath();
    transforms.forEach((index) => this.trace(pen, places.edges[index]));
    pen.stroke();
    for (const index of places.nodesBetween(top, bottom)) this.node(pen, index);
    if (view.scale >= TEXT_SCALE) transforms.forEach((index) => this.labelled.has(index) && this.label(pen, index));
  }

  trace(pen, points) {
    pen.moveTo(...points[0]);
    for (let place = 1; place < points.length; place++) {
      const [x0, y0] = points[place - 1], [x1, y1] = points[place], middle = (y0 + y1) / 2;
      if (x0 === x1) pen.lineTo(x1, y1); else pen.bezierCurveTo(x0, middle, x1, middle, x1, y1);
    }
  }

  node(pen, index) {
    const node = this.target.nodes[index], [cx, cy] = this.places.nodes[index], { colours, side } = this;
    const width = this.places.nodeWidth, height = this.places.nodeHeight, x = cx - width / 2, y = cy - height / 2;
    const layout = layoutOf(node, side), scale = this.view.scale;
    pen.globalAlpha = this.matches.size && !this.matches.has(index) ? 0.3 : 1;
    pen.fillStyle = colours.fill(layout);
    pen.beginPath();
    if (scale < SHAPE_SCALE) pen.rect(x, y, width, height); else pen.roundRect(x, y, width, height, node.type === 'operator' ? 7 : 22);
    pen.fill();
    const moves = ['permute_dims', 'layout_transform'].includes(node.operator) && !(side === 'after' && node.moves_nothing);
    pen.strokeStyle = moves ? colours.red : colours.border(layout);
    pen.lineWidth = moves ? 2.5 : 1.3;
    pen.stroke();
    if (index === this.selected) {
      pen.strokeStyle = colours.accent; pen.lineWidth = Math.max(4, 3 / scale);
      pen.strokeRect(x - 3, y - 3, width + 6, height + 6);
    }
    if (scale >= TEXT_SCALE) this.texts(pen, node, x, y, width, height);
    pen.globalAlpha = 1;
  }

  texts(pen, node, x, y, width, height) {
    const call = node.call === null ? null : this.target.calls[node.call];
    let time = '';
    if (this.side === 'after' && call && call.operators[0] === node.name) {
      const us = call.measured_us ?? call.estimate_us;
      if (us !== null) {
        time = timeText(us);
        pen.fillStyle = this.colours.bar;
        pen.fillRect(x + 1, y + height - 4, (width - 2) * Math.min(1, us / this.busiest), 3);
      }
    }
    pen.fillStyle = this.colours.nodeInk;
    pen.textBaseline = 'top';
    pen.textAlign = 'right'; pen.font = '11px system-ui, sans-serif';
    if (time) pen.fillText(time, x + width - 8, y + 6);
    pen.textAlign = 'left';
    pen.font = '600 12px system-ui, sans-serif';
    const title = node.type === 'operator' ? shortOperator(node.operator) || 'expression' : node.type;
    pen.fillText(shortened(pen, title, width - 20 - (time ? 55 : 0)), x + 8, y + 5);
    pen.font = '11px system-ui, sans-serif';
    pen.fillText(shortened(pen, layoutText(node, this.side), width - 16), x + 8, y + 19);
    pen.globalAlpha *= 0.75;
    pen.fillText(shortened(pen, node.name, width - 16), x + 8, y + 33);
  }

  label(pen, index) {
    const transform = this.target.transforms[this.target.edges[index].transform];
    const points = this.places.edges[index], middle = Math.floor((points.length - 1) / 2);
    const x = (points[middle][0] + points[middle + 1][0]) / 2, y = (points[middle][1] + points[middle + 1][1]) / 2;
    const text = `${transform.source} → ${transform.target} · ${bytesText(transform.bytes)} · ${transformTime(this.target, transform)[0]}`;
    pen.font = '600 11px system-ui, sans-serif';
    pen.textAlign = 'center'; pen.textBaseline = 'middle';
    const width = pen.measureText(text).width + 12;
    pen.fillStyle = this.colours.card; pen.strokeStyle = this.colours.red; pen.lineWidth = 1.2;
    pen.beginPath(); pen.roundRect(x - width / 2, y - 9, width, 18, 9); pen.fill(); pen.stroke();
    pen.fillStyle = this.colours.red;
    pen.fillText(text, x, y);
  }
}

const WIDTHS = new Map();

/** As much of a text as fits, with an ellipsis where it does not. */
function shortened(pen, text, width) {
  const key = `${pen.font}|${width}|${text}`;
  if (!WIDTHS.has(key)) {
    let kept = text;
    while (kept.length > 1 && pen.measureText(kept === text ? text : `${kept}…`).width > width) {
      kept = kept.slice(0, Math.max(1, Math.floor(kept.length * 0.9)));
    }
    WIDTHS.set(key, kept === text ? text : `${kept}…`);
  }
  return WIDTHS.get(key);
}
