// What tests of commands begin with: a running server with commands beside it, or commands in an empty folder. All of
// it ends with the file that asked for it.
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

/** Commands that run in a folder of their own; each `place` in it is new. */
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
