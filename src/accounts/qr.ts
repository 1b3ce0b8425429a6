// A text as a QR code (ISO/IEC 18004), drawn as SVG: dark squares on white in either colour scheme, so that cameras
// read it, with the margin of four squares that the standard asks for.
import { html } from 'hono/html'
import { encode } from 'uqr'
import type { Html } from '../webui/widgets.ts'

const MARGIN = 4

export function qrCode(text: string, label: string): Html {
  const { data, size } = encode(text, { border: MARGIN })
  const path = data.flatMap((row, y) => row.flatMap((dark, x) => (dark ? [`M${x} ${y}h1v1h-1z`] : []))).join('')
  return html`<svg class="qr" viewBox="0 0 ${size} ${size}" role="img" aria-label="${label}">
    <rect width="${size}" height="${size}" fill="#fff" />
    <path d="${path}" fill="#000" />
  </svg>`
}
