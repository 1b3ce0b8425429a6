// The executable of a released version, built once from the commit it was released as.

import { execFile } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { KEPT } from './base.ts'

const ROOT = join(import.meta.dirname, '../../..')
const TIMEOUT = 240_000
const run = promisify(execFile)

/** Version 0.1.0, which came as one file and a unit, before there was a package. */
export const FIRST = { version: '0.1.0', commit: '86ea45d' } as const

export interface Released {
  executable: string
  unit: string
}

export async function released({ commit, version }: typeof FIRST): Promise<Released> {
  const place = join(KEPT, `postrider-${version}-${commit}`)
  const made = { executable: join(place, 'postrider'), unit: join(place, 'postrider.service') }
  if (existsSync(place)) return made
  mkdirSync(KEPT, { recursive: true })
  const tree = mkdtempSync(join(tmpdir(), 'postrider-released-'))
  const result = `${place}.${process.pid}`
  try {
    const limits = { cwd: tree, timeout: TIMEOUT, maxBuffer: 1 << 26 }
    const archive = join(tree, 'tree.tar')
    await run('git', ['-C', ROOT, 'archive', '--output', archive, commit], limits)
    await run('tar', ['--extract', '--file', archive], limits)
    await run('npm', ['ci', '--no-audit', '--no-fund'], limits)
    await run('npm', ['run', 'build'], limits)
    mkdirSync(result)
    copyFileSync(join(tree, 'dist/postrider'), join(result, 'postrider'))
    copyFileSync(join(tree, 'packaging/postrider.service'), join(result, 'postrider.service'))
    renameSync(result, place)
  } catch (thrown) {
    // Another run was quicker.
    if (!existsSync(place)) throw thrown
  } finally {
    rmSync(tree, { recursive: true, force: true })
    rmSync(result, { recursive: true, force: true })
  }
  return made
}
