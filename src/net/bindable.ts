// Whether this machine can connect from an address: whether a socket can be bound to it now.
import { createSocket } from 'node:dgram'
import { familyOf } from '../base/network.ts'

export const canBind = (address: string): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = createSocket(`udp${familyOf(address)}`)
    const over = (bound: boolean): void => {
      socket.close()
      resolve(bound)
    }
    socket.once('error', () => over(false))
    socket.bind(0, address, () => over(true))
  })
