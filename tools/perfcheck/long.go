package main

import "context"

func (c *checker) longPaths(ctx context.Context) error { return nil }
