// Whether the server may accept new work.
import { refuse } from '../base/errors.ts'
import type { ApiDeps } from './define.ts'

/**
 * Throws 507 while the free space on the disk is below its reserve, because accepted email could not be stored (D73).
 */
export function refuseWhenFull({ space }: Pick<ApiDeps, 'space'>): void {
  if (space.low)
    throw refuse(
      'insufficient_storage',
      'The server has too little storage and accepts no new data. Try again later, or ask the operator to free space.',
      undefined,
      { 'Retry-After': '60' },
    )
}
