# make up      install what is missing, start everything, play a first test; Ctrl-C ends it all
# make worker  desktops of this machine for a console elsewhere: DESKYARD_URL, DESKYARD_WORKER_TOKEN
# make down    end a `make up` that runs elsewhere
# make test    install what is missing, then lint and run all tests, those on real desktops too
# make lint    the checks without tests
# make bench   figures against their peers, as ratios

SHELL := /bin/sh
.DEFAULT_GOAL := up
.PHONY: up worker down test lint bench bootstrap

export DESKYARD_HOME ?= .deskyard
export DESKYARD_PORT ?= 8000
# Compiled files halve the time of each later start.
unexport PYTHONDONTWRITEBYTECODE
PYTHON := .venv/bin/python

bootstrap:
	@deploy/bootstrap.sh

# exec: make must be the direct parent, so that the console notices when make is killed.
# What bootstrap takes counts: "up after" is from here.
up: BEGAN := $(shell date +%s)
up: bootstrap
	@exec $(PYTHON) -m console.embedded up --end-with-parent --began $(BEGAN)

worker: bootstrap
	@exec $(PYTHON) -m console.embedded worker --end-with-parent

down:
	@if [ -x $(PYTHON) ]; then exec $(PYTHON) -m console.embedded down; else echo "Nothing is up."; fi

lint: bootstrap
	@exec $(PYTHON) -m console.embedded lint

test: bootstrap
	@exec $(PYTHON) -m console.embedded test --end-with-parent

bench: bootstrap
	@exec $(PYTHON) -m bench
