// Previews of email are as tall as their content. Their frames run no scripts, and have the origin of the page so that
// it can measure them. Without this script a frame has a fixed height and scrolls.

/** Taller than usual emails. The frame of a taller email scrolls. */
const MOST = 20_000

function fit(frame: HTMLIFrameElement): void {
  const root = frame.contentDocument?.documentElement
  if (!root || frame.contentDocument?.URL === 'about:blank') return
  // The height of the root is at least that of the frame.
  frame.style.height = '0'
  const bar = root.scrollWidth > root.clientWidth ? 16 : 0
  frame.style.height = `${Math.min(root.scrollHeight + bar + 2, MOST)}px`
}

export function fitFrames(): void {
  const frames = document.querySelectorAll<HTMLIFrameElement>('iframe.fit')
  for (const frame of frames) {
    frame.addEventListener('load', () => fit(frame))
    if (frame.contentDocument?.readyState === 'complete') fit(frame)
  }
  addEventListener('resize', () => {
    for (const frame of frames) fit(frame)
  })
}
