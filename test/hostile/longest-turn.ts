// Preloaded into a server: reports the most CPU time of its main thread for one turn of the event loop, whenever it is
// a new maximum. SIGURG resets it. Other load of the machine does not change CPU time.
import { isMainThread } from 'node:worker_threads'

let longest = 0
let before = process.threadCpuUsage()

function turn(): void {
  const { system, user } = process.threadCpuUsage(before)
  const cost = (system + user) / 1000
  if (cost > longest) {
    longest = cost
    process.stdout.write(`${JSON.stringify({ event: 'longest turn', ms: cost })}\n`)
  }
  before = process.threadCpuUsage()
  setImmediate(turn).unref()
}

if (isMainThread) {
  process.on('SIGURG', () => (longest = 0))
  turn()
}
