'use strict';
// memjs: the binary protocol.

const assert = require('node:assert/strict');
const test = require('node:test');
const { setTimeout: sleep } = require('node:timers/promises');
const memjs = require('memjs');
const { faces, start } = require('./running.js');

function connect(t, ...nodes) {
  const addresses = nodes.map((node) => node.address).join(',');
  const client = memjs.Client.create(addresses, { timeout: 5, retries: 2, failover: false });
  t.after(() => client.close());
  return client;
}

for (const face of faces) {
  test(`${face}: storage`, async (t) => {
    const client = connect(t, await start(t, face));
    assert.deepEqual(await client.get('k'), { value: null, flags: null });
    assert.equal(await client.set('k', 'value', { expires: 100 }), true);
    const { value } = await client.get('k');
    assert.equal(value.toString(), 'value');
    assert.equal(await client.add('k', 'other', {}), false);
    assert.equal(await client.replace('nothing', 'x', {}), false);
    assert.equal(await client.replace('k', 'new', {}), true);
    assert.equal(await client.append('k', '!'), true);
    assert.equal((await client.get('k')).value.toString(), 'new!');
    assert.equal(await client.delete('k'), true);
    assert.equal(await client.delete('k'), false);
  });

  test(`${face}: values of every size come back as they were`, async (t) => {
    const client = connect(t, await start(t, face));
    for (const size of [0, 1, 100, 10_000, 1_000_000]) {
      const value = Buffer.alloc(size, '\r\n\0ÿ');
      assert.equal(await client.set('k', value, {}), true);
      assert.ok((await client.get('k')).value.equals(value), `${size} bytes`);
    }
  });

  test(`${face}: counters`, async (t) => {
    const client = connect(t, await start(t, face));
    assert.deepEqual(await client.increment('n', 5, { initial: 10 }), { success: true, value: 10 });
    assert.deepEqual(await client.increment('n', 5, {}), { success: true, value: 15 });
    assert.deepEqual(await client.decrement('n', 20, {}), { success: true, value: 0 });
    const added = await Promise.all(Array.from({ length: 500 }, () => client.increment('n', 1, {})));
    assert.equal(new Set(added.map(({ value }) => value)).size, 500);
    assert.equal((await client.get('n')).value.toString().trim(), '500');
  });

  test(`${face}: many requests on one connection`, async (t) => {
    const client = connect(t, await start(t, face));
    const keys = Array.from({ length: 2000 }, (_, n) => `key-${n}`);
    await Promise.all(keys.map((key) => client.set(key, `value of ${key}`, {})));
    const values = await Promise.all(keys.map((key) => client.get(key)));
    values.forEach(({ value }, n) => assert.equal(value.toString(), `value of ${keys[n]}`));
  });

  test(`${face}: expiry, touch and flush`, async (t) => {
    const client = connect(t, await start(t, face));
    await client.set('brief', 'x', { expires: 1 });
    await client.set('touched', 'x', { expires: 1 });
    assert.equal(await client.touch('touched', 100), true);
    for (const deadline = Date.now() + 10_000; (await client.get('brief')).value; await sleep(50)) {
      assert.ok(Date.now() < deadline, 'it never expired');
    }
    assert.equal((await client.get('touched')).value.toString(), 'x');
    await client.flush();
    assert.equal((await client.get('touched')).value, null);
  });

  test(`${face}: statistics`, async (t) => {
    const node = await start(t, face);
    const client = connect(t, node);
    await client.set('k', 'x', {});
    const found = await new Promise((resolve, reject) => {
      client.stats((error, _, stats) => (error ? reject(error) : resolve(stats)));
    });
    assert.equal(found.curr_items, '1');
  });

  test(`${face}: of two nodes one ends, and the other keeps its items`, async (t) => {
    const [first, second] = [await start(t, face), await start(t, face)];
    const client = connect(t, first, second);
    const keys = Array.from({ length: 400 }, (_, n) => `key-${n}`);
    await Promise.all(keys.map((key) => client.set(key, key, {})));
    const alone = connect(t, first);
    const kept = [];
    for (const key of keys) if ((await alone.get(key)).value) kept.push(key);
    assert.ok(kept.length > 100 && kept.length < 300, `${kept.length} of 400 on one node`);
    await second.kill();
    for (const key of kept) assert.equal((await client.get(key)).value.toString(), key);
  });
}
