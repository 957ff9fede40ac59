// Ends the process when its main thread is stuck in a loop: no timer of that thread could, and the run would never end.
import { writeSync } from 'node:fs';
import { Session } from 'node:inspector';
import { workerData } from 'node:worker_threads';

const { beats, limitMs } = workerData;
const LOOK_EVERY_MS = 1_000;
let seen = -1;
let seenAt = Date.now();

setInterval(() => {
  const now = Date.now();
  const beat = Atomics.load(beats, 0);
  if (beat !== seen) {
    seen = beat;
    seenAt = now;
  } else if (now - seenAt > limitMs) {
    seenAt = now + limitMs;
    end();
  }
}, LOOK_EVERY_MS);

function end() {
  const kill = () => process.kill(process.pid, 'SIGKILL');
  setTimeout(kill, 5_000);
  const session = new Session();
  session.connectToMainThread();
  const urls = new Map();
  session.on('Debugger.scriptParsed', ({ params }) => urls.set(params.scriptId, params.url));
  session.on('Debugger.paused', ({ params }) => {
    const stack = params.callFrames.map(
      ({ functionName, location }) =>
        `    at ${functionName || '<anonymous>'} (${urls.get(location.scriptId)}:${location.lineNumber + 1})`,
    );
    // Not by `process.stderr`, which goes through the thread that is stuck.
    writeSync(2, `The test process was in this loop for ${limitMs / 1000} s:\n${stack.join('\n')}\n`);
    kill();
  });
  session.post('Debugger.enable');
  session.post('Debugger.pause');
}
