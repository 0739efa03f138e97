// Tables under the graph. They sort by any column and draw their rows when they are first shown.

const FIRST_ROWS = 200;

class Column {
  constructor(title, value, text, number = false) { Object.assign(this, { title, value, text, number }); }
}

const textColumn = (title, value) => new Column(title, value, (row) => String(value(row)));

const numberColumn = (title, value, text) => new Column(title, value, (row) => (value(row) === null ? '' : text(value(row))), true);

class SortableTable {
  constructor(columns, rows, click) { Object.assign(this, { columns, rows, click, limit: FIRST_ROWS, by: null, down: true }); }

  element() {
    const box = make('div');
    this.fill(box);
    return box;
  }

  fill(box) {
    const rows = this.sorted();
    const head = this.columns.map((column) => make('th', { class: column.number ? 'number' : '', ariaSort: 'none' },
      make('button', { type: 'button', click: () => { this.down = this.by === column ? !this.down : column.number; this.by = column; this.fill(box); } },
        column.title + (this.by === column ? (this.down ? ' ▾' : ' ▴') : ''))));
    const body = rows.slice(0, this.limit).map((row) => make('tr', { class: 'row', tabIndex: 0, click: () => this.click(row) },
      ...this.columns.map((column) => make('td', { class: column.number ? 'number' : '' }, column.text(row)))));
    body.forEach((row) => row.addEventListener('keydown', (event) => { if (event.key === 'Enter') row.click(); }));
    const all = rows.length > this.limit
      ? make('p', {}, make('button', { type: 'button', click: () => { this.limit = Infinity; this.fill(box); } }, `Show all ${rows.length} rows`)) : '';
    box.replaceChildren(make('table', {}, make('thead', {}, make('tr', {}, ...head)), make('tbody', {}, ...body)), all);
  }

  sorted() {
    if (!this.by) return this.rows;
    const { value } = this.by, turn = this.down ? -1 : 1;
    return [...this.rows].sort((one, other) => {
      const [left, right] = [value(one), value(other)];
      if (left === null || right === null) return left === right ? 0 : left === null ? 1 : -1;
      return (left < right ? -1 : left > right ? 1 : 0) * turn;
    });
  }
}

function kernelTable(target, choose) {
  const total = target.calls.reduce((sum, call) => sum + (call.measured_us ?? 0), 0);
  const us = (value) => value.toFixed(1);
  const columns = [
    numberColumn('#', (row) => row.place, String),
    textColumn('operators', (row) => row.call.operators.join(', ') || row.call.function),
    textColumn('kernel', (row) => row.call.operator || 'loops'),
    textColumn('from', (row) => [row.call.source, row.call.algorithm].filter(Boolean).join(', ')),
    numberColumn('estimate µs', (row) => row.call.estimate_us, us),
    numberColumn('measured µs', (row) => row.call.measured_us, us),
    numberColumn('runs', (row) => (target.calls.every((call) => call.runs === 1) ? null : row.call.runs), String),
    numberColumn('of run', (row) => (row.call.measured_us === null || !total ? null : row.call.measured_us / total), (value) => `${(value * 100).toFixed(1)} %`),
    numberColumn('GFLOP/s', (row) => callRate(target, row.call).gflops, (value) => value.toFixed(0)),
    numberColumn('of peak', (row) => callRate(target, row.call).share, (value) => `${(value * 100).toFixed(0)} %`),
    numberColumn('bytes', (row) => row.call.bytes, bytesText),
  ];
  const used = columns.filter((column) => column.title === '#' || target.calls.some((call, place) => column.value({ call, place }) !== null));
  return new SortableTable(used, target.calls.map((call, place) => ({ call, place })), (row) => choose(nodeOf(target, row.call.operators)));
}

function transformTable(target, choose) {
  const columns = [
    textColumn('tensor', (row) => row.value), textColumn('from', (row) => row.source), textColumn('to', (row) => row.target),
    numberColumn('bytes', (row) => row.bytes, bytesText), numberColumn('estimate µs', (row) => row.microseconds, (value) => value.toFixed(1)),
    numberColumn('measured µs', (row) => (row.call === null ? null : target.calls[row.call].measured_us), (value) => value.toFixed(1)),
    textColumn('for', (row) => row.readers.join(', ')),
  ];
  return new SortableTable(columns, target.transforms, (row) => choose(nodeOf(target, row.readers)));
}

function operatorTable(target, choose) {
  const rows = target.nodes.map((node, index) => ({ node, index })).filter(({ node }) => node.type === 'operator');
  const columns = [
    textColumn('name', (row) => row.node.name), textColumn('operator', (row) => row.node.operator),
    textColumn('before', (row) => layoutText(row.node, 'before')), textColumn('after', (row) => layoutText(row.node, 'after')),
    textColumn('how', (row) => row.node.how), numberColumn('estimate µs', (row) => row.node.microseconds, (value) => value.toFixed(1)),
    textColumn('reason', (row) => row.node.reason),
  ];
  return new SortableTable(columns, rows, (row) => choose(row.index));
}

function nodeOf(target, names) {
  const place = target.nodes.findIndex((node) => names.includes(node.name));
  return place < 0 ? null : place;
}
