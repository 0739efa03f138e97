// The memory plan: calls from left to right, addresses from top to bottom, a box for each tensor.

function memoryView(target, colours) {
  const { memory, calls } = target, canvas = make('canvas', { role: 'img', ariaLabel: 'Memory of intermediate results over the calls' });
  const shared = memory.tensor_bytes - memory.storage_bytes;
  const rows = memory.storages.map((storage, place) => ({ storage, place }));
  const columns = [
    numberColumn('storage', (row) => row.place, String), numberColumn('bytes', (row) => row.storage.bytes, bytesText),
    numberColumn('tensors', (row) => row.storage.tensors.length, String),
    textColumn('first to last call', (row) => {
      const tensors = row.storage.tensors;
      return tensors.length ? `${Math.min(...tensors.map((each) => each.first))} to ${Math.max(...tensors.map((each) => each.last))}` : '';
    }),
  ];
  const text = `Weights ${bytesText(memory.weight_bytes)}. Intermediate results ${bytesText(memory.storage_bytes)} in ` +
    `${counted(memory.storages.length, 'storage')}, allocated once` + (shared > 0 ? `; ${bytesText(memory.tensor_bytes)} if no two shared memory.` : '.');
  const box = make('div', {}, make('p', {}, text), memory.storages.length ? canvas : '', new SortableTable(columns, rows, () => {}).element());
  requestAnimationFrame(() => drawMemory(canvas, memory, calls.length, colours));
  return box;
}

function drawMemory(canvas, memory, count, colours) {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight, boxes = [];
  canvas.width = width * ratio; canvas.height = height * ratio;
  const pen = canvas.getContext('2d'), left = 4, right = width - 4, base = height - 20;
  pen.scale(ratio, ratio);
  const across = (call) => left + ((right - left) * call) / Math.max(1, count);
  let start = 0;
  memory.storages.forEach((storage, place) => {
    const down = (offset) => ((start + offset) / memory.storage_bytes) * base;
    for (const tensor of storage.tensors) {
      const x = across(tensor.first), y = down(tensor.offset);
      const box = [x, y, Math.max(1, across(tensor.last + 1) - x), Math.max(1, down(tensor.offset + tensor.bytes) - y)];
      pen.fillStyle = colours.fills[place % colours.fills.length]; pen.strokeStyle = colours.borders[place % colours.borders.length];
      pen.fillRect(...box); pen.strokeRect(...box);
      boxes.push([box, `storage ${place}: ${tensor.dtype} [${tensor.shape.join(', ')}], ${bytesText(tensor.bytes)}, calls ${tensor.first} to ${tensor.last}`]);
    }
    start += storage.bytes;
  });
  pen.fillStyle = colours.muted; pen.font = '12px system-ui, sans-serif'; pen.textBaseline = 'bottom';
  pen.fillText('call 0', left, height);
  pen.textAlign = 'right';
  pen.fillText(`call ${Math.max(0, count - 1)}`, right, height);
  canvas.addEventListener('pointermove', (event) => {
    const under = boxes.findLast(([[x, y, w, h]]) => event.offsetX >= x && event.offsetX <= x + w && event.offsetY >= y && event.offsetY <= y + h);
    canvas.title = under ? under[1] : '';
  });
}
