// A thread that the system holds in a call, as that of a disk that does not answer, must not keep the server (D72).
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryDirectory } from '../kit/directory.ts'
import { makePipe } from '../kit/pipe.ts'

const folder = temporaryDirectory('held')
const source = (path: string): string => JSON.stringify(new URL(path, import.meta.url).href)

test('closes a pool with a thread that is blocked in a system call, and exits with its status (D72)', async () => {
  const pipe = join(folder, 'pipe')
  makePipe(pipe)
  const script = `
    import { constants, openSync } from 'node:fs'
    import { Pool } from ${source('../../src/base/threads/pool.ts')}
    import { areThreadsLeft } from ${source('../../src/base/threads/supervisor.ts')}
    import { exitAtOnce } from ${source('../../src/base/native.ts')}
    const pool = new Pool(new URL(${source('../base/threads/worker.ts')}), { size: 1 })
    const held = pool.run([{ read: ${JSON.stringify(pipe)} }]).catch(({ message }) => message)
    // Succeeds once the thread has opened the pipe for reading. Its read then blocks, because no data is written.
    const opens = () => {
      try {
        return openSync(${JSON.stringify(pipe)}, constants.O_WRONLY | constants.O_NONBLOCK)
      } catch {}
    }
    while (opens() === undefined) await new Promise(setImmediate)
    await pool.close()
    console.log(await held, areThreadsLeft())
    if (areThreadsLeft()) exitAtOnce(7)
  `
  const file = join(folder, 'script.mjs')
  writeFileSync(file, script)
  const child = spawn(process.execPath, [file], { stdio: ['ignore', 'pipe', 'inherit'] })
  let said = ''
  child.stdout.on('data', (chunk: Buffer) => void (said += chunk.toString()))
  const [code] = (await once(child, 'exit')) as [number]
  assert.deepEqual([said, code], ['The server is stopping. true\n', 7])
})
