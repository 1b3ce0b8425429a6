// Fixtures for tests of commands: a running server with commands next to it, or commands in an empty directory. The end
// of the test file stops and removes them.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { Commands } from './command.ts'

/** A server, and commands that name its data directory. */
export async function startBeside(): Promise<{ postrider: TestAppliance; commands: Commands }> {
  const postrider = await startTestAppliance()
  const commands = Commands.beside(postrider)
  after(async () => {
    await commands.close()
    await postrider.stop()
  })
  return { postrider, commands }
}

/** Commands that run in a temporary directory. `place` returns a new path in it. */
export function inFolder(prefix: string): { folder: string; commands: Commands; place: () => string } {
  const folder = mkdtempSync(join(tmpdir(), prefix))
  const commands = new Commands(folder)
  after(async () => {
    await commands.close()
    rmSync(folder, { recursive: true, force: true })
  })
  let places = 0
  return { folder, commands, place: () => join(folder, `place-${++places}`) }
}
