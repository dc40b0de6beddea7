'use strict';
// Starts the program under test as a node.

const { spawn } = require('node:child_process');
const { once } = require('node:events');
const net = require('node:net');
const path = require('node:path');
const { setTimeout: sleep } = require('node:timers/promises');

const START_MS_MAX = 20_000;

// The ways in which the program under test serves the protocol.
const faces = process.env.NODE_FACE === 'peer' ? ['peer'] : ['memcached', 'serve'];

async function freePort() {
  const probe = net.createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address();
  probe.close();
  await once(probe, 'close');
  return port;
}

async function answers(port) {
  const socket = net.connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

// Starts a node, and ends it with `test`.
async function start(test, face, ...options) {
  const port = await freePort();
  const program = path.join(__dirname, '..', 'start-node');
  const child = spawn(program, [face, String(port), ...options], { stdio: ['ignore', 'inherit', 'inherit'] });
  const ended = once(child, 'exit');
  const kill = async () => {
    child.kill('SIGKILL');
    await ended;
  };
  test.after(kill);
  for (const deadline = Date.now() + START_MS_MAX; !(await answers(port)); await sleep(10)) {
    if (child.exitCode !== null || Date.now() > deadline) throw new Error('the node does not answer');
  }
  return { address: `127.0.0.1:${port}`, kill };
}

module.exports = { faces, start };
