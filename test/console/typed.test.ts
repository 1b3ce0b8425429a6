// Tests that user input in the console is parsed in linear time: a signed-in user must not block the server for others.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readPictures } from '../../src/message/html-tokens.ts'
import { costingAtOnce } from '../kit/cost.ts'

test('finds the images of a page with URL and alternative text', () => {
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

test('finds images in linear time', () => {
  for (const piece of ['<img ', '<img alt="', "<img src='", '<img/'])
    costingAtOnce(500, () => [...readPictures(piece.repeat(100_000))])
})
