// What people type and write in the console is read in time that grows with its length alone: a signed-in person must
// not hold up the server for all others.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readPictures } from '../../src/message/pictures.ts'
import { costingAtOnce } from '../kit/cost.ts'

test('pictures of a page, with their address and their text', () => {
  const picturesOf = (html: string) => Array.from(readPictures(html), ({ alt, url }) => [url, alt])
  assert.deepEqual(picturesOf('<p>no</p><imgx>'), [])
  assert.deepEqual(picturesOf(`<img src=a alt="A > B"><IMG alt='x'/><img alt=word src="b?c&amp;d ">`), [
    ['a', 'A > B'],
    ['', 'x'],
    ['b?c&d', 'word'],
  ])
  assert.deepEqual(picturesOf('<img><img src="a>b"><img alt=""><img alt src=c><img data-alt="x">'), [
    ['', ''],
    ['a>b', ''],
    ['', ''],
    ['c', ''],
    ['', ''],
  ])
})

test('no page makes it slow', () => {
  for (const piece of ['<img ', '<img alt="', "<img src='", '<img/'])
    costingAtOnce(500, () => [...readPictures(piece.repeat(100_000))])
})
