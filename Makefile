# For those who have make; the scripts need none.
.PHONY: demo test bench lint format clean

demo:
	./demo.sh

test:
	./test.sh

bench:
	tools/setup.sh demo
	.venv/bin/mgi perf exchange --endpoints 4 --rows 4000000 --row-bytes 32 --repeat 5

lint:
	./test.sh lint

format:
	tools/lint.sh --fix

clean:
	rm -rf build
