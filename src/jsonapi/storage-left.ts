// Whether the server may accept new work.
import { refuse } from '../base/errors.ts'
import type { ApiDeps } from './define.ts'

/** Throws 507 while the free space on the disk is below its reserve: accepted mail could not be stored (D73). */
export function refuseWhenFull({ space }: Pick<ApiDeps, 'space'>): void {
  if (space.low)
    throw refuse(
      'insufficient_storage',
      'The server is short of storage and takes nothing new until its operator has made room; send this again later.',
      undefined,
      { 'Retry-After': '60' },
    )
}
