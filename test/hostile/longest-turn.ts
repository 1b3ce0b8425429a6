// Preloaded into a server: tells the most CPU time that its main thread took for one turn of the event loop, whenever
// it was longer than all before. SIGUSR2 begins again. Other load of the machine does not change CPU time.
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
  process.on('SIGUSR2', () => (longest = 0))
  turn()
}
