// Finds the files of a data directory that hold an address, byte by byte. The search runs in a separate process: when a
// process opens and closes a file that SQLite has open too, it loses its locks on that file.
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { betrays } from '../../src/store/erasing.ts'

const HERE = fileURLToPath(import.meta.url)

export async function filesWith(dataDir: string, address: string): Promise<string[]> {
  const { stdout } = await promisify(execFile)(process.execPath, [HERE, dataDir, address], {
    env: { ...process.env, NODE_TEST_CONTEXT: '' },
  })
  return JSON.parse(stdout) as string[]
}

if (process.argv[1] === HERE) {
  const [dataDir, address] = process.argv.slice(2) as [string, string]
  const names = (readdirSync(dataDir, { recursive: true }) as string[]).filter((name) => {
    const path = join(dataDir, name)
    return (
      statSync(path, { throwIfNoEntry: false })?.isFile() &&
      betrays(readFileSync(path), address, name.startsWith('postrider.db'))
    )
  })
  process.stdout.write(JSON.stringify(names))
}
