// A disk that gets full: a small separate tmpfs, which only root can mount. Unmounted with `using`.
import { spawnSync } from 'node:child_process'
import { closeSync, ftruncateSync, mkdirSync, openSync, readdirSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf } from '../../src/base/errors.ts'

const FILLER = 'filler'

/** Mounts one at a path (`size=3m`). Undefined where that is not possible. */
export function smallDisk(dir: string, options: string) {
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', `${options},mode=700`, 'tmpfs', dir], { stdio: 'ignore' }).status !== 0)
    return undefined
  return {
    dir,
    /** Fills the disk up to this many free bytes. */
    fill(left: number): void {
      const filler = openSync(join(dir, FILLER), 'w')
      let size = 0
      try {
        for (;;) size += writeSync(filler, Buffer.alloc(4096))
      } catch (thrown) {
        if (codeOf(thrown) !== 'ENOSPC') throw thrown
      }
      ftruncateSync(filler, Math.max(0, size - left))
      closeSync(filler)
    },
    /** The names in it, without the filler. */
    names: (): string[] =>
      readdirSync(dir)
        .filter((name) => name !== FILLER)
        .sort(),
    clear(): void {
      for (const name of readdirSync(dir)) rmSync(join(dir, name), { recursive: true })
    },
    [Symbol.dispose]: (): void => void spawnSync('umount', [dir], { stdio: 'ignore' }),
  }
}
