// How long a port leaves clients without a greeting.

import { connect } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'

/** Between two questions. */
const STEP = 20

/** True when the server greets. */
function greets(address: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: address, port, timeout: 1000 })
    const end = (yes: boolean) => {
      socket.destroy()
      resolve(yes)
    }
    socket.once('data', (data: Buffer) => end(data.toString('latin1').startsWith('220')))
    for (const event of ['error', 'timeout', 'close'] as const) socket.once(event, () => end(false))
  })
}

/** Asks port 25 all the while that `work` runs; the longest time between two greetings, in milliseconds. */
export async function longestSilence(address: string, work: () => Promise<void>): Promise<{ longest: number }> {
  let over = false
  let longest = 0
  const ask = async (): Promise<void> => {
    let last = performance.now()
    while (!over) {
      if (await greets(address, 25)) {
        longest = Math.max(longest, performance.now() - last)
        last = performance.now()
      }
      await pause(STEP)
    }
    longest = Math.max(longest, performance.now() - last)
  }
  const asking = ask()
  try {
    await work()
  } finally {
    over = true
    await asking
  }
  return { longest: Math.round(longest) }
}
